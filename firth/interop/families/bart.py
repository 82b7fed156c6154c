"""BART (Lewis et al. 2020): learned positions, LayerNorm after each sublayer and on the embedded tokens, GELU, biases everywhere,
the embedding as output layer with a bias on the logits.

Its tables of positions have two rows more than positions, which nothing reads. Marian, Pegasus, mBART and M2M-100 share most of
its names.
"""

from __future__ import annotations

from typing import Any

import torch

from firth.interop.families.family import Family
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import KV, QKV, Conversion, Weight, WeightMap
from firth.layers.norm import Placement
from firth.models import TransformerSeq2SeqConfig
from firth.models.config import transformer

ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "swish": "silu", "silu": "silu", "gelu_new": "gelu_tanh"}
_UNREAD = 2  # rows before the first position
_POSITIONS = Conversion(
    lambda theirs, _: theirs[0][_UNREAD:].contiguous(),
    lambda ours, _: [torch.cat((ours.new_zeros(_UNREAD, ours.shape[1]), ours))],
)
_ROW = Conversion(lambda theirs, _: theirs[0].squeeze(0), lambda ours, _: [ours.unsqueeze(0)])


def _side(side: str) -> tuple[Weight, ...]:
    """Self-attention and feed-forward network of encoder or decoder."""
    ours, theirs = f"{side}.blocks.{{n}}", f"model.{side}.layers.{{n}}"
    attention = f"{theirs}.self_attn"
    return (
        Weight(
            f"{ours}.attention.qkv.{{p}}",
            (f"{attention}.q_proj.{{p}}", f"{attention}.k_proj.{{p}}", f"{attention}.v_proj.{{p}}"),
            QKV,
        ),
        Weight(f"{ours}.attention.out.{{p}}", f"{attention}.out_proj.{{p}}"),
        Weight(f"{ours}.attention_norm.{{p}}", f"{theirs}.self_attn_layer_norm.{{p}}"),
        Weight(f"{ours}.feedforward.up.{{p}}", f"{theirs}.fc1.{{p}}"),
        Weight(f"{ours}.feedforward.down.{{p}}", f"{theirs}.fc2.{{p}}"),
        Weight(f"{ours}.feedforward_norm.{{p}}", f"{theirs}.final_layer_norm.{{p}}"),
    )


_CROSS = "model.decoder.layers.{n}.encoder_attn"
LAYERS = (
    Weight("embedding.weight", "model.shared.weight"),
    *_side("encoder"),
    *_side("decoder"),
    Weight("decoder.blocks.{n}.cross.query.{p}", f"{_CROSS}.q_proj.{{p}}"),
    Weight("decoder.blocks.{n}.cross.kv.{p}", (f"{_CROSS}.k_proj.{{p}}", f"{_CROSS}.v_proj.{{p}}"), KV),
    Weight("decoder.blocks.{n}.cross.out.{p}", f"{_CROSS}.out_proj.{{p}}"),
    Weight("decoder.blocks.{n}.cross_norm.{p}", f"{_CROSS}_layer_norm.{{p}}"),
    Weight("output_bias", "final_logits_bias", _ROW),
)
FINAL_NORMS = tuple(Weight(f"{side}.norm.{{p}}", f"model.{side}.layer_norm.{{p}}") for side in ("encoder", "decoder"))
COPIES: dict[str, str] = dict.fromkeys(
    ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"), "model.shared.weight"
)
EMBEDDED = (  # what is added to embedded tokens, and their norm
    *(Weight(f"{side}.position.table_Td", f"model.{side}.embed_positions.weight", _POSITIONS) for side in ("encoder", "decoder")),
    *(Weight(f"{side}.embedding_norm.{{p}}", f"model.{side}.layernorm_embedding.{{p}}") for side in ("encoder", "decoder")),
)
WEIGHTS = WeightMap((*LAYERS, *EMBEDDED), repeated=COPIES)


def read_shape(config: ForeignConfig, placement: Placement = "post", activation: str = "gelu") -> dict[str, Any]:
    """The settings that BART's relatives share; `activation` is the family's where config.json says nothing."""
    for same in ("normalize_before", "add_final_layer_norm"):
        config.expect(same, placement == "pre")
    config.expect("add_bias_logits", False)
    config.expect("tie_word_embeddings", True)
    for unused in ("extra_pos_embeddings", "_num_labels", "save_step"):
        config.take(unused)
    heads, hidden = config.size("encoder_attention_heads"), config.size("encoder_ffn_dim")
    config.same("decoder_attention_heads", heads, default=16)
    config.same("decoder_ffn_dim", hidden, default=4096)
    depth = config.size("encoder_layers")
    config.expect("num_hidden_layers", depth)
    return {
        "kind": "transformer",
        "width": config.size("d_model"),
        "encoder_depth": depth,
        "depth": config.size("decoder_layers"),
        "attention.heads": heads,
        "feedforward.hidden": hidden,
        "context": config.size("max_position_embeddings", 1024),
        "norm.kind": "layer",
        "norm.placement": placement,
        "feedforward.activation": ACTIVATIONS[config.expect("activation_function", activation, *ACTIVATIONS)],
        "bias": True,
        "output_bias": True,
        "shared": True,
    }


def read(config: ForeignConfig) -> TransformerSeq2SeqConfig:
    return transformer(TransformerSeq2SeqConfig, read_shape(config) | read_embedded(config))


def read_embedded(config: ForeignConfig) -> dict[str, Any]:
    """Learned positions, and a norm of the embedded tokens."""
    config.expect("normalize_embedding", True)
    config.expect("static_position_embeddings", False)
    scaled = config.expect("scale_embedding", False, True)
    return {"position.kind": "learned", "embedding.norm": True, "embedding.scale": True if scaled else None}


def write_shape(model: Any) -> dict[str, Any]:
    table: dict[str, Any] = {
        "is_encoder_decoder": True,
        "d_model": model.width,
        "max_position_embeddings": model.context,
        "activation_function": next(theirs for theirs, ours in ACTIVATIONS.items() if ours == model.feedforward.activation),
        "dropout": model.dropout,
        "tie_word_embeddings": True,
        "forced_eos_token_id": None,
    }
    for side, depth in (("encoder", model.encoder_depth or model.depth), ("decoder", model.depth)):
        table |= {f"{side}_layers": depth, f"{side}_attention_heads": model.attention.heads, f"{side}_ffn_dim": model.inner}
    return table


def write(model: Any) -> dict[str, Any]:
    return {**write_shape(model), "scale_embedding": bool(model.embedding.scale)}


FREE = frozenset({"width", "depth", "encoder_depth", "attention.heads", "feedforward.hidden", "context"})
LIMITED: dict[str, tuple[Any, ...]] = {
    "norm.kind": ("layer",),
    "norm.placement": ("post",),
    "feedforward.activation": tuple(dict.fromkeys(ACTIVATIONS.values())),
    "bias": (True,),
    "output_bias": (True,),
    "shared": (True,),
    "embedding.scale": (None, True, False),
}
BART = Family(
    title="BART",
    model_type="bart",
    architecture="BartForConditionalGeneration",
    objective="translation",
    weights=WEIGHTS,
    read=read,
    write=write,
    free=FREE,
    limited={**LIMITED, "position.kind": ("learned",), "embedding.norm": (True,)},
    model="seq2seq",
    auto_class="AutoModelForSeq2SeqLM",
)
