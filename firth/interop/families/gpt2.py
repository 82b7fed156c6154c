"""GPT-2 (Radford et al. 2019): learned positions, LayerNorm before each sublayer, GELU by its tanh approximation, tied output.

Its linear layers are Conv1D modules, which store their matrices transposed. A stored causal mask (attn.bias) is no weight.
"""

from __future__ import annotations

from firth.interop.families.family import Family
from firth.interop.files.config_map import Entry, always, choice, dropout, expected, number, size, unused, unwritten, written
from firth.interop.files.weight_map import TRANSPOSED, Weight, WeightMap

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


GPT2 = Family(
    title="GPT-2",
    model_type="gpt2",
    architecture="GPT2LMHeadModel",
    weights=WEIGHTS,
    config=(
        size("width", "n_embd"),
        size("depth", "n_layer"),
        size("attention.heads", "n_head"),
        Entry(
            lambda config, _: {"feedforward.hidden": config.size_or_none("n_inner")},
            lambda model: {"n_inner": model.feedforward.hidden},
            ("feedforward.hidden",),
        ),
        size("context", "n_positions"),
        always("position.kind", "learned"),
        always("norm.kind", "layer"),
        number("norm.eps", "layer_norm_epsilon", 1e-5),
        choice("feedforward.activation", "activation_function", _ACTIVATIONS),
        always("bias", True),
        expected("scale_attn_weights", True),
        unwritten("scale_attn_by_inverse_layer_idx", False),
        unwritten("add_cross_attention", False),
        expected("tie_word_embeddings", True),
        unused("reorder_and_upcast_attn"),  # the order of roundings, not the mathematics
        dropout("resid_pdrop", "embd_pdrop"),
        written(attn_pdrop=0.0),
    ),
)
