"""GPT-2 (Radford et al. 2019): learned positions, LayerNorm before each sublayer, GELU by its tanh approximation, tied output.

Its linear layers are Conv1D modules, which store their matrices transposed. A stored causal mask (attn.bias) is no weight.
"""

from __future__ import annotations

from typing import Any

from firth.interop.families.family import Family
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import TRANSPOSED, Weight, WeightMap
from firth.models import TransformerConfig
from firth.models.config import transformer

_ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}

_LAYER = "transformer.h.{n}"
WEIGHTS = WeightMap(
    (
        Weight("embedding.weight", "transformer.wte.weight"),
        Weight("position.table_Td", "transformer.wpe.weight"),
        Weight("blocks.{n}.attention_norm.{p}", f"{_LAYER}.ln_1.{{p}}"),
        Weight("blocks.{n}.attention.qkv.weight", f"{_LAYER}.attn.c_attn.weight", TRANSPOSED),
        Weight("blocks.{n}.attention.qkv.bias", f"{_LAYER}.attn.c_attn.bias"),
        Weight("blocks.{n}.attention.out.weight", f"{_LAYER}.attn.c_proj.weight", TRANSPOSED),
        Weight("blocks.{n}.attention.out.bias", f"{_LAYER}.attn.c_proj.bias"),
        Weight("blocks.{n}.feedforward_norm.{p}", f"{_LAYER}.ln_2.{{p}}"),
        Weight("blocks.{n}.feedforward.up.weight", f"{_LAYER}.mlp.c_fc.weight", TRANSPOSED),
        Weight("blocks.{n}.feedforward.up.bias", f"{_LAYER}.mlp.c_fc.bias"),
        Weight("blocks.{n}.feedforward.down.weight", f"{_LAYER}.mlp.c_proj.weight", TRANSPOSED),
        Weight("blocks.{n}.feedforward.down.bias", f"{_LAYER}.mlp.c_proj.bias"),
        Weight("norm.{p}", "transformer.ln_f.{p}"),
    ),
    ignored=(f"{_LAYER}.attn.bias", f"{_LAYER}.attn.masked_bias", "h.{n}.attn.bias", "h.{n}.attn.masked_bias"),
    repeated={"lm_head.weight": "transformer.wte.weight"},
    prefix="transformer.",
)


def read(config: ForeignConfig) -> TransformerConfig:
    config.expect("scale_attn_weights", True)
    config.expect("scale_attn_by_inverse_layer_idx", False)
    config.expect("add_cross_attention", False)
    config.expect("tie_word_embeddings", True)
    config.take("reorder_and_upcast_attn")  # the order of roundings, not the mathematics
    activation: Any = _ACTIVATIONS[config.expect("activation_function", *_ACTIVATIONS)]
    return transformer(
        TransformerConfig,
        {
            "width": config.size("n_embd"),
            "depth": config.size("n_layer"),
            "attention.heads": config.size("n_head"),
            "feedforward.hidden": config.size_or_none("n_inner"),
            "context": config.size("n_positions"),
            "position.kind": "learned",
            "norm.kind": "layer",
            "norm.eps": config.number("layer_norm_epsilon", 1e-5),
            "feedforward.activation": activation,
            "bias": True,
        },
    )


def write(model: Any) -> dict[str, Any]:
    return {
        "n_embd": model.width,
        "n_layer": model.depth,
        "n_head": model.attention.heads,
        "n_inner": model.feedforward.hidden,
        "n_positions": model.context,
        "activation_function": next(theirs for theirs, ours in _ACTIVATIONS.items() if ours == model.feedforward.activation),
        "layer_norm_epsilon": model.norm.eps,
        **dict.fromkeys(("resid_pdrop", "embd_pdrop"), model.dropout),
        "attn_pdrop": 0.0,
        "scale_attn_weights": True,
        "tie_word_embeddings": True,
    }


GPT2 = Family(
    title="GPT-2",
    model_type="gpt2",
    architecture="GPT2LMHeadModel",
    objective="next-token",
    weights=WEIGHTS,
    read=read,
    write=write,
    free=frozenset({"width", "depth", "attention.heads", "feedforward.hidden", "context", "norm.eps"}),
    limited={
        "position.kind": ("learned",),
        "norm.kind": ("layer",),
        "feedforward.activation": tuple(dict.fromkeys(_ACTIVATIONS.values())),
        "bias": (True,),
    },
)
