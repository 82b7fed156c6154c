"""T5 (Raffel et al. 2020), T5 1.1, FLAN-T5 and mT5: relative positions as biases of the scores, which are not scaled; RMSNorm
before each sublayer; no biases; ReLU, or gates of approximate GELU from 1.1 on.

T5 uses the embedding as its output layer, and divides the output layer's input by √width. From 1.1 on it does neither, and says
so by tie_word_embeddings = false. `transformers` 5 writes scale_decoder_outputs, too; whether there is an output layer, the
weights tell. mT5 never divides, whatever its tie_word_embeddings is.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from firth.interop.families.family import Family
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import GATE_UP, KV, QKV, Weight, WeightMap
from firth.layers.activation import is_gated
from firth.models import TransformerSeq2SeqConfig
from firth.models.config import transformer

_ACTIVATIONS = {"relu": "relu", "gated-gelu": "geglu_tanh", "gated-silu": "swiglu"}
_REPEATED = {"relu": "relu", "gated-gelu": "gelu_new", "gated-silu": "silu"}  # dense_act_fn of each


def weight_map(model: Any) -> WeightMap:
    gated = is_gated(model.feedforward.activation)
    return WeightMap(
        (
            Weight("embedding.weight", "shared.weight"),
            *_side("encoder", last=1, gated=gated),
            *_side("decoder", last=2, gated=gated),
            Weight("decoder.blocks.{n}.cross_norm.weight", "decoder.block.{n}.layer.1.layer_norm.weight"),
            Weight("decoder.blocks.{n}.cross.query.weight", "decoder.block.{n}.layer.1.EncDecAttention.q.weight"),
            Weight(
                "decoder.blocks.{n}.cross.kv.weight",
                ("decoder.block.{n}.layer.1.EncDecAttention.k.weight", "decoder.block.{n}.layer.1.EncDecAttention.v.weight"),
                KV,
            ),
            Weight("decoder.blocks.{n}.cross.out.weight", "decoder.block.{n}.layer.1.EncDecAttention.o.weight"),
            Weight("output.weight", "lm_head.weight"),
        ),
        ignored=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),  # never used
        repeated=dict.fromkeys(("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"), "shared.weight"),
    )


def _side(side: str, last: int, gated: bool) -> tuple[Weight, ...]:
    """Self-attention and feed-forward network of encoder or decoder; the latter is layer `last` of each of their blocks."""
    ours, theirs = f"{side}.blocks.{{n}}", f"{side}.block.{{n}}.layer"
    attention, feedforward = f"{theirs}.0.SelfAttention", f"{theirs}.{last}.DenseReluDense"
    up = (
        Weight(f"{ours}.feedforward.up.weight", (f"{feedforward}.wi_0.weight", f"{feedforward}.wi_1.weight"), GATE_UP)
        if gated
        else Weight(f"{ours}.feedforward.up.weight", f"{feedforward}.wi.weight")
    )
    return (
        Weight(f"{side}.relative.table_NH", f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
        Weight(f"{ours}.attention_norm.weight", f"{theirs}.0.layer_norm.weight"),
        Weight(f"{ours}.attention.qkv.weight", (f"{attention}.q.weight", f"{attention}.k.weight", f"{attention}.v.weight"), QKV),
        Weight(f"{ours}.attention.out.weight", f"{attention}.o.weight"),
        Weight(f"{ours}.feedforward_norm.weight", f"{theirs}.{last}.layer_norm.weight"),
        up,
        Weight(f"{ours}.feedforward.down.weight", f"{feedforward}.wo.weight"),
        Weight(f"{side}.norm.weight", f"{side}.final_layer_norm.weight"),
    )


def read_t5(config: ForeignConfig) -> TransformerSeq2SeqConfig:
    says_tied = config.expect("tie_word_embeddings", True, False)
    scaled = config.flag("scale_decoder_outputs", says_tied)
    return transformer(TransformerSeq2SeqConfig, {**read_shape(config, "relu"), **read_output(config, scaled, tied=scaled)})


def read_mt5(config: ForeignConfig) -> TransformerSeq2SeqConfig:
    config.expect("tie_word_embeddings", True, False)
    scaled = config.expect("scale_decoder_outputs", False)
    return transformer(TransformerSeq2SeqConfig, {**read_shape(config, "gated-gelu"), **read_output(config, scaled)})


def read_output(config: ForeignConfig, scaled: bool, tied: bool = False) -> dict[str, Any]:
    """The output layer is the embedding if it is `tied`, or if the checkpoint has no other."""
    return {"tied": tied or "lm_head.weight" not in config.tensors, "output_scale": scaled}


def read_shape(config: ForeignConfig, usual: str) -> dict[str, Any]:
    """All settings but those of the output layer; `usual` is the family's feed_forward_proj where config.json says nothing."""
    feedforward = config.expect("feed_forward_proj", usual, *_ACTIVATIONS)
    config.expect("dense_act_fn", _REPEATED[feedforward])
    config.expect("is_gated_act", feedforward.startswith("gated"))
    activation: Any = _ACTIVATIONS[feedforward]
    width, heads, depth = config.size("d_model"), config.size("num_heads"), config.size("num_layers")
    head_width = config.size("d_kv", 64)
    return {
        "width": width,
        "encoder_depth": depth,
        "depth": config.size("num_decoder_layers", depth),
        "attention.heads": heads,
        "attention.head_width": None if head_width * heads == width else head_width,
        "feedforward.hidden": config.size("d_ff"),
        "context": config.size("n_positions", 512),
        "position.kind": "t5",
        "position.buckets": config.size("relative_attention_num_buckets", 32),
        "position.max_distance": config.size("relative_attention_max_distance", 128),
        "attention.score": "dot",
        "norm.eps": config.number("layer_norm_epsilon", 1e-6),
        "feedforward.activation": activation,
        "shared": True,
    }


def write_t5(model: Any) -> dict[str, Any]:
    return {**write_mt5(model), "scale_decoder_outputs": model.output_scale}


def write_mt5(model: Any) -> dict[str, Any]:
    from firth.layers.position.t5 import BUCKETS, MAX_DISTANCE

    return {
        "is_encoder_decoder": True,
        "d_model": model.width,
        "num_layers": model.encoder_depth or model.depth,
        "num_decoder_layers": model.depth,
        "num_heads": model.attention.heads,
        "d_kv": model.per_head,
        "d_ff": model.inner,
        "n_positions": model.context,
        "relative_attention_num_buckets": model.position.buckets or BUCKETS,
        "relative_attention_max_distance": model.position.max_distance or MAX_DISTANCE,
        "layer_norm_epsilon": model.norm.eps,
        "feed_forward_proj": next(theirs for theirs, ours in _ACTIVATIONS.items() if ours == model.feedforward.activation),
        "dropout_rate": model.dropout,
        "tie_word_embeddings": model.tied,
    }


T5 = Family(
    title="T5",
    model_type="t5",
    architecture="T5ForConditionalGeneration",
    objective="translation",
    weights=weight_map,
    read=read_t5,
    write=write_t5,
    free=frozenset(
        {
            "width", "depth", "encoder_depth", "attention.heads", "attention.head_width", "feedforward.hidden", "context",
            "position.buckets", "position.max_distance", "norm.eps", "tied", "output_scale",
        }
    ),
    limited={
        "position.kind": ("t5",), "attention.score": ("dot",), "feedforward.activation": tuple(_ACTIVATIONS.values()),
        "shared": (True,),
    },
    model="seq2seq",
    auto_class="AutoModelForSeq2SeqLM",
)  # fmt: skip
MT5 = dataclasses.replace(
    T5,
    title="mT5",
    model_type="mt5",
    architecture="MT5ForConditionalGeneration",
    read=read_mt5,
    write=write_mt5,
    free=T5.free - {"output_scale"},
)
