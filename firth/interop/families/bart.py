"""BART (Lewis et al. 2020): learned positions, LayerNorm after each sublayer and on the embedded tokens, GELU, biases everywhere,
the embedding as output layer with a bias on the logits.

mBART and mBART-50 (Liu et al. 2020; Tang et al. 2020): LayerNorm before each sublayer, and after the last layer. Tokens of their
own say which language is read and which is written (text/tokenizers/languages.py).

Their tables of positions have two rows more than positions, which nothing reads. Marian, Pegasus and M2M-100 share most of the
names.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from firth.interop.families.family import Family
from firth.interop.files.config_map import Entry, Settings, always, choice, dropout, expected, size, unused, unwritten, written
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import BEHIND_TWO, KV, QKV, Conversion, Weight, WeightMap
from firth.layers.norm import Placement

ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "swish": "silu", "silu": "silu", "gelu_new": "gelu_tanh"}
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
    *(Weight(f"{side}.position.table_Td", f"model.{side}.embed_positions.weight", BEHIND_TWO) for side in ("encoder", "decoder")),
    *(Weight(f"{side}.embedding_norm.{{p}}", f"model.{side}.layernorm_embedding.{{p}}") for side in ("encoder", "decoder")),
)
WEIGHTS = WeightMap((*LAYERS, *EMBEDDED), repeated=COPIES)


def shape(placement: Placement = "post", activation: str = "gelu", output_bias: bool = True) -> tuple[Entry, ...]:
    """The settings that BART's relatives share; `activation` is the family's where config.json says nothing."""
    return (
        *(unwritten(same, placement == "pre") for same in ("normalize_before", "add_final_layer_norm")),
        unwritten("add_bias_logits", False),
        expected("tie_word_embeddings", True),
        unused("extra_pos_embeddings", "_num_labels", "save_step"),
        size("width", "d_model"),
        Entry(_read_sides, _write_sides, ("encoder_depth", "attention.heads", "feedforward.hidden")),
        size("depth", "decoder_layers"),
        size("context", "max_position_embeddings", 1024),
        choice("feedforward.activation", "activation_function", ACTIVATIONS, default=activation),
        always("norm.kind", "layer"),
        always("norm.placement", placement),
        always("bias", True),
        always("output_bias", output_bias),
        always("shared", True),
        dropout("dropout"),
        written(is_encoder_decoder=True, forced_eos_token_id=None),
    )


def _read_sides(config: ForeignConfig, before: Settings) -> Settings:
    heads, hidden, depth = (config.size(f"encoder_{key}") for key in ("attention_heads", "ffn_dim", "layers"))
    config.same("decoder_attention_heads", heads, default=16)
    config.same("decoder_ffn_dim", hidden, default=4096)
    config.expect("num_hidden_layers", depth)
    return {"encoder_depth": depth, "attention.heads": heads, "feedforward.hidden": hidden}


def _write_sides(model: Any) -> dict[str, Any]:
    both = {"attention_heads": model.attention.heads, "ffn_dim": model.inner}
    sides = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in both.items()}
    return {"encoder_layers": model.encoder_depth or model.depth, **sides}


def _read_scale(config: ForeignConfig, before: Settings) -> Settings:
    return {"embedding.scale": True if config.expect("scale_embedding", False, True) else None}


# Learned positions, and a norm of the embedded tokens.
EMBEDDED_CONFIG = (
    unwritten("normalize_embedding", True),
    unwritten("static_position_embeddings", False),
    always("position.kind", "learned"),
    always("embedding.norm", True),
    Entry(
        _read_scale,
        lambda model: {"scale_embedding": bool(model.embedding.scale)},
        limited={"embedding.scale": (None, True, False)},
    ),
)
BART = Family(
    title="BART",
    model_type="bart",
    architecture="BartForConditionalGeneration",
    objective="translation",
    weights=WEIGHTS,
    config=(*shape(), *EMBEDDED_CONFIG),
    model="seq2seq",
    auto_class="AutoModelForSeq2SeqLM",
)

MBART = dataclasses.replace(
    BART,
    title="mBART",
    model_type="mbart",
    architecture="MBartForConditionalGeneration",
    weights=WeightMap((*LAYERS, *EMBEDDED, *FINAL_NORMS), repeated=COPIES),
    config=(*shape("pre"), *EMBEDDED_CONFIG),
)
