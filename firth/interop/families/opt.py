"""OPT (Zhang et al. 2022) and Galactica (Taylor et al. 2022), which has GELU and biases in its norms only: learned positions,
LayerNorm before each sublayer, ReLU, tied output.

The table of positions has two rows before that of the first token: padding has the second of them, nothing the first. OPT-350M is
refused: its embedding is narrower than its layers, and projected before positions are added.
"""

from __future__ import annotations

from typing import Any

from firth.interop.families.family import UNBIASED_OUTPUT, Family
from firth.interop.files.config_map import (
    Entry,
    Settings,
    always,
    choice,
    done,
    dropout,
    either,
    expected,
    size,
    unused,
    unwritten,
    written,
)
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import BEHIND_TWO, QKV, Weight, WeightMap

_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "silu": "silu"}

_LAYER = "model.decoder.layers.{n}"
WEIGHTS = WeightMap(
    (
        Weight("embedding.weight", "model.decoder.embed_tokens.weight"),
        Weight("position.table_Td", "model.decoder.embed_positions.weight", BEHIND_TWO),
        Weight("blocks.{n}.attention_norm.{p}", f"{_LAYER}.self_attn_layer_norm.{{p}}"),
        Weight("blocks.{n}.attention.qkv.{p}", tuple(f"{_LAYER}.self_attn.{part}_proj.{{p}}" for part in "qkv"), QKV),
        Weight("blocks.{n}.attention.out.{p}", f"{_LAYER}.self_attn.out_proj.{{p}}"),
        Weight("blocks.{n}.feedforward_norm.{p}", f"{_LAYER}.final_layer_norm.{{p}}"),
        Weight("blocks.{n}.feedforward.up.{p}", f"{_LAYER}.fc1.{{p}}"),
        Weight("blocks.{n}.feedforward.down.{p}", f"{_LAYER}.fc2.{{p}}"),
        Weight("norm.{p}", "model.decoder.final_layer_norm.{p}"),
        Weight("output.weight", "lm_head.weight"),
    ),
    repeated={"lm_head.weight": "model.decoder.embed_tokens.weight"},
    prefix="model.",
)


def _read_biases(config: ForeignConfig, before: Settings) -> Settings:
    biased = config.expect("enable_bias", True, False)
    return {"bias": biased, "norm.bias": None if biased else True}


def _together(model: Any) -> str | None:
    return None if model.bias or model.norm.bias else "LayerNorm without a bias"


OPT = Family(
    title="OPT",
    model_type="opt",
    architecture="OPTForCausalLM",
    weights=WEIGHTS,
    config=(
        size("width", "hidden_size"),
        Entry(
            lambda config, before: done(config.expect("word_embed_proj_dim", before["width"])),
            lambda model: {"word_embed_proj_dim": model.width},
        ),
        size("depth", "num_hidden_layers"),
        size("attention.heads", "num_attention_heads"),
        size("feedforward.hidden", "ffn_dim", 3072),
        choice("feedforward.activation", "activation_function", _ACTIVATIONS),
        size("context", "max_position_embeddings", 2048),
        always("position.kind", "learned"),
        always("norm.kind", "layer"),
        choice("norm.placement", "do_layer_norm_before", {True: "pre", False: "post"}),
        unwritten("_remove_final_layer_norm", False),
        expected("layer_norm_elementwise_affine", True),
        Entry(
            _read_biases, lambda model: {"enable_bias": model.bias}, limited={"bias": (True, False), "norm.bias": (None, True)}
        ),
        UNBIASED_OUTPUT,
        either("tied", "tie_word_embeddings", True),
        dropout("dropout"),
        unused("layerdrop"),  # of training
        written(attention_dropout=0.0, layerdrop=0.0),
    ),
    together=_together,
)
