"""OPT (Zhang et al. 2022) and Galactica (Taylor et al. 2022), which has GELU and biases in its norms only: learned positions,
LayerNorm before each sublayer, ReLU, tied output.

The table of positions has two rows before that of the first token: padding has the second of them, nothing the first. OPT-350M is
refused: its embedding is narrower than its layers, and projected before positions are added.
"""

from __future__ import annotations

from typing import Any

import torch

from firth.interop.families.family import Family
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import QKV, Conversion, Weight, WeightMap
from firth.models import TransformerConfig
from firth.models.config import transformer

_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "silu": "silu"}
_BEFORE = 2  # rows before the first position
_POSITIONS = Conversion(
    lambda theirs, _: theirs[0][_BEFORE:].contiguous(),
    lambda ours, _: [torch.cat((ours.new_zeros(_BEFORE, ours.shape[1]), ours))],
)

_LAYER = "model.decoder.layers.{n}"
WEIGHTS = WeightMap(
    (
        Weight("embedding.weight", "model.decoder.embed_tokens.weight"),
        Weight("position.table_Td", "model.decoder.embed_positions.weight", _POSITIONS),
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


def read(config: ForeignConfig) -> TransformerConfig:
    width = config.size("hidden_size")
    config.expect("word_embed_proj_dim", width)
    config.expect("layer_norm_elementwise_affine", True)
    before = config.expect("do_layer_norm_before", True, False)
    config.expect("_remove_final_layer_norm", False)
    config.take("layerdrop")  # of training
    activation: Any = _ACTIVATIONS[config.expect("activation_function", *_ACTIVATIONS)]
    biased = config.expect("enable_bias", True, False)
    return transformer(
        TransformerConfig,
        {
            "width": width,
            "depth": config.size("num_hidden_layers"),
            "attention.heads": config.size("num_attention_heads"),
            "feedforward.hidden": config.size("ffn_dim", 3072),
            "feedforward.activation": activation,
            "context": config.size("max_position_embeddings", 2048),
            "position.kind": "learned",
            "norm.kind": "layer",
            "norm.placement": "pre" if before else "post",
            "norm.bias": None if biased else True,
            "bias": biased,
            "output_bias": False,
            "tied": config.expect("tie_word_embeddings", True, False),
        },
    )


def write(model: Any) -> dict[str, Any]:
    return {
        "hidden_size": model.width,
        "word_embed_proj_dim": model.width,
        "num_hidden_layers": model.depth,
        "num_attention_heads": model.attention.heads,
        "ffn_dim": model.inner,
        "max_position_embeddings": model.context,
        "activation_function": next(theirs for theirs, ours in _ACTIVATIONS.items() if ours == model.feedforward.activation),
        "do_layer_norm_before": model.norm.placement == "pre",
        "enable_bias": model.bias,
        "layer_norm_elementwise_affine": True,
        "dropout": model.dropout,
        "attention_dropout": 0.0,
        "layerdrop": 0.0,
        "tie_word_embeddings": model.tied,
    }


def _together(model: Any) -> str | None:
    return None if model.bias or model.norm.bias else "LayerNorm without a bias"


OPT = Family(
    title="OPT",
    model_type="opt",
    architecture="OPTForCausalLM",
    objective="next-token",
    weights=WEIGHTS,
    read=read,
    write=write,
    free=frozenset({"width", "depth", "attention.heads", "feedforward.hidden", "context", "tied"}),
    limited={
        "position.kind": ("learned",),
        "norm.kind": ("layer",),
        "norm.placement": ("pre", "post"),
        "norm.bias": (None, True),
        "feedforward.activation": tuple(dict.fromkeys(_ACTIVATIONS.values())),
        "bias": (True, False),
    },
    together=_together,
)
