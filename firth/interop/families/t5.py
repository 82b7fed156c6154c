"""T5 (Raffel et al. 2020), T5 1.1, FLAN-T5 and mT5: relative positions as biases of the scores, which are not scaled; RMSNorm
before each sublayer; no biases; ReLU, or gates of approximate GELU from 1.1 on.

T5 uses the embedding as its output layer, and divides the output layer's input by √width. From 1.1 on it does neither, and says
so by tie_word_embeddings = false. `transformers` 5 writes scale_decoder_outputs, too; whether there is an output layer, the
weights tell. mT5 never divides, whatever its tie_word_embeddings is.

UMT5 (Chung et al. 2023): mT5 with a table of relative positions in each layer, instead of one for all layers.

`transformers` 5 divides the output layer's input by √width, whatever tie_word_embeddings is, and also if the checkpoint has an
output layer of its own. Earlier versions do not divide where tie_word_embeddings is false, as in Google's checkpoints. We do as
version 5 and warn; the most probable token is the same.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

from firth.interop.families.family import Family
from firth.interop.files.config_map import Entry, Settings, always, choice, dropout, number, size, written
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import GATE_UP, KV, QKV, Weight, WeightMap
from firth.layers.activation import is_gated
from firth.layers.position.t5 import BUCKETS, MAX_DISTANCE

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


def _read_t5_output(config: ForeignConfig, before: Settings) -> Settings:
    says_tied = config.expect("tie_word_embeddings", True, False)
    scaled = config.flag("scale_decoder_outputs", says_tied)
    return _read_output(config, scaled, tied=scaled)


def _read_mt5_output(config: ForeignConfig, before: Settings) -> Settings:
    config.expect("tie_word_embeddings", True, False)
    return _read_output(config, config.expect("scale_decoder_outputs", False))


def _read_output(config: ForeignConfig, scaled: bool, tied: bool = False) -> dict[str, Any]:
    """The output layer is the embedding if it is `tied`, or if the checkpoint has no other."""
    return {"tied": tied or "lm_head.weight" not in config.tensors, "output_scale": scaled}


def _write_tied(model: Any) -> dict[str, Any]:
    return {"tie_word_embeddings": model.tied}


def _shape(usual: str) -> tuple[Entry, ...]:
    """All settings but those of the output layer; `usual` is the family's feed_forward_proj where config.json says nothing."""

    def read_activation(config: ForeignConfig, before: Settings) -> Settings:
        feedforward = config.expect("feed_forward_proj", usual, *_ACTIVATIONS)
        config.expect("dense_act_fn", _REPEATED[feedforward])
        config.expect("is_gated_act", feedforward.startswith("gated"))
        return {"feedforward.activation": _ACTIVATIONS[feedforward]}

    def read_head_width(config: ForeignConfig, before: Settings) -> Settings:
        head_width = config.size("d_kv", 64)
        return {"attention.head_width": None if head_width * before["attention.heads"] == before["width"] else head_width}

    activation = choice("feedforward.activation", "feed_forward_proj", _ACTIVATIONS)
    return (
        dataclasses.replace(activation, read=read_activation),
        size("width", "d_model"),
        Entry(
            lambda config, _: {"encoder_depth": config.size("num_layers")},
            lambda model: {"num_layers": model.encoder_depth or model.depth},
            ("encoder_depth",),
        ),
        size("depth", "num_decoder_layers", "encoder_depth"),
        size("attention.heads", "num_heads"),
        Entry(read_head_width, lambda model: {"d_kv": model.per_head}, ("attention.head_width",)),
        size("feedforward.hidden", "d_ff"),
        size("context", "n_positions", 512),
        always("position.kind", "t5"),
        size("position.buckets", "relative_attention_num_buckets", BUCKETS),
        size("position.max_distance", "relative_attention_max_distance", MAX_DISTANCE),
        always("attention.score", "dot"),
        number("norm.eps", "layer_norm_epsilon", 1e-6),
        always("shared", True),
        dropout("dropout_rate"),
        written(is_encoder_decoder=True),
    )


T5 = Family(
    title="T5",
    model_type="t5",
    architecture="T5ForConditionalGeneration",
    objective="translation",
    weights=weight_map,
    config=(
        *_shape("relu"),
        Entry(
            _read_t5_output,
            lambda model: {**_write_tied(model), "scale_decoder_outputs": model.output_scale},
            ("tied", "output_scale"),
        ),
    ),
    model="seq2seq",
    auto_class="AutoModelForSeq2SeqLM",
)
MT5 = dataclasses.replace(
    T5,
    title="mT5",
    model_type="mt5",
    architecture="MT5ForConditionalGeneration",
    config=(*_shape("gated-gelu"), Entry(_read_mt5_output, _write_tied, ("tied",))),
)

_TABLES = tuple(
    Weight(
        f"{side}.blocks.{{n}}.attention.attend.table_NH",
        f"{side}.block.{{n}}.layer.0.SelfAttention.relative_attention_bias.weight",
    )
    for side in ("encoder", "decoder")
)

_SCALED = (
    "config.json sets tie_word_embeddings = false. Like transformers 5, firth divides the input of the output layer by √width "
    "nevertheless; to compute as transformers 4 did, import the model and set model.output_scale = false in recipe.toml."
)


def weights(model: Any) -> WeightMap:
    of_t5 = weight_map(model)
    return dataclasses.replace(of_t5, weights=(*_TABLES, *of_t5.weights))


def _read_umt5_output(config: ForeignConfig, before: Settings) -> Settings:
    if not config.expect("tie_word_embeddings", True, False):
        warnings.warn(_SCALED, stacklevel=2)
    config.expect("scale_decoder_outputs", True)
    return _read_output(config, scaled=True)


UMT5 = dataclasses.replace(
    T5,
    title="UMT5",
    model_type="umt5",
    architecture="UMT5ForConditionalGeneration",
    weights=weights,
    config=(
        *_shape("gated-gelu"),
        Entry(_read_umt5_output, _write_tied, ("tied",), {"output_scale": (True,)}),
        always("position.per_layer", True),
    ),
)
