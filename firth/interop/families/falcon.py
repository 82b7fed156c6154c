"""Falcon (Almazrouei et al. 2023): attention and feed-forward network in parallel, GELU, biases in the norms only. Falcon 7B has
one norm for both and one key for all heads; 40B and 180B have two norms and keys for groups of heads; Falcon-RW has ALiBi, a key
for each head, biases everywhere, and one layer after the other.

Queries, keys and values alternate by group. ALiBi is added before the scores are divided by √D, so that its slopes are divided by
it, too. `transformers` rounds ALiBi to bfloat16 (8 bits) whatever the weights are in; ours is exact, so that the logits of a
Falcon-RW with other numbers of heads than 2, 4 and 8, or of long texts, differ by that rounding.
"""

from __future__ import annotations

from typing import Any

from firth.interop.families.family import UNBIASED_OUTPUT, Family
from firth.interop.families.rope import ROPE_FREE, SCALINGS, read_rope, write_rope
from firth.interop.files.config_map import (
    Entry,
    Settings,
    always,
    choice,
    dropout,
    either,
    either_name,
    number,
    size,
    unwritten,
    written,
)
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import Weight, WeightMap, alternating

_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu", "silu": "silu"}

_LAYER = "transformer.h.{n}"
_NORMS = {False: ("input_layernorm", "post_attention_layernorm"), True: ("input_layernorm",), "two_norms": ("ln_attn", "ln_mlp")}


def weights(model: Any) -> WeightMap:
    norms = zip(("attention_norm", "feedforward_norm"), _NORMS[model.feedforward.parallel], strict=False)
    return WeightMap(
        (
            Weight("embedding.weight", "transformer.word_embeddings.weight"),
            *(Weight(f"blocks.{{n}}.{ours}.{{p}}", f"{_LAYER}.{theirs}.{{p}}") for ours, theirs in norms),
            Weight("blocks.{n}.attention.qkv.{p}", f"{_LAYER}.self_attention.query_key_value.{{p}}", alternating(lambda _: None)),
            Weight("blocks.{n}.attention.out.{p}", f"{_LAYER}.self_attention.dense.{{p}}"),
            Weight("blocks.{n}.feedforward.up.{p}", f"{_LAYER}.mlp.dense_h_to_4h.{{p}}"),
            Weight("blocks.{n}.feedforward.down.{p}", f"{_LAYER}.mlp.dense_4h_to_h.{{p}}"),
            Weight("norm.{p}", "transformer.ln_f.{p}"),
            Weight("output.weight", "lm_head.weight"),
        ),
        ignored=(f"{_LAYER}.self_attention.rotary_emb.inv_freq", "h.{n}.self_attention.rotary_emb.inv_freq"),
        repeated={"lm_head.weight": "transformer.word_embeddings.weight"},
        prefix="transformer.",
    )


def _read_biases(config: ForeignConfig, before: Settings) -> Settings:
    biased = config.flag("bias", False)
    return {"bias": biased, "norm.bias": None if biased else True}


def _read_shape(config: ForeignConfig, before: Settings) -> Settings:
    """The number of key heads, and whether attention and feed-forward network are parallel. If one key of config.json decides
    this, the other keys are ignored."""
    heads, shared = before["attention.heads"], config.flag("multi_query", True)
    if config.flag("new_decoder_architecture", False):
        config.expect("parallel_attn", True)
        two = config.expect("num_ln_in_parallel_attn", 2, 1) == 2
        return {"attention.kv_heads": config.size("num_kv_heads", heads), "feedforward.parallel": "two_norms" if two else True}
    parallel = config.flag("parallel_attn", True)
    if parallel:
        config.expect("num_ln_in_parallel_attn", None, 1)
    else:
        config.take("num_ln_in_parallel_attn")
    if shared:
        config.take("num_kv_heads")
    else:
        config.expect("num_kv_heads", heads)
    return {"attention.kv_heads": 1 if shared else heads, "feedforward.parallel": parallel}


def _read_position(config: ForeignConfig, before: Settings) -> Settings:
    if not config.flag("alibi", False):
        return read_rope(config, before)
    for unused in ("rope_theta", "rope_scaling", "rope_parameters"):
        config.take(unused)
    return {"position.kind": "alibi", "position.scaled": True}


def _write_shape(model: Any) -> dict[str, Any]:
    heads, groups, parallel = model.attention.heads, model.attention.groups, model.feedforward.parallel
    new = parallel == "two_norms" or groups not in (1, heads)
    return {
        "num_kv_heads": groups if new else heads,
        "multi_query": groups == 1,
        "new_decoder_architecture": new,
        "parallel_attn": parallel is not False,
        "num_ln_in_parallel_attn": {"two_norms": 2, True: 1, False: None}[parallel],
    }


def _write_position(model: Any) -> dict[str, Any]:
    return {"alibi": True} if model.position.kind == "alibi" else {"alibi": False, **write_rope(model)}


def _together(model: Any) -> str | None:
    heads, groups = model.attention.heads, model.attention.groups
    if not (model.bias or model.norm.bias):
        return "LayerNorm without a bias"
    if model.feedforward.parallel is False and groups not in (1, heads):
        return f"model.attention.kv_heads = {groups} with one layer after the other"
    return None


FALCON = Family(
    title="Falcon",
    model_type="falcon",
    architecture="FalconForCausalLM",
    weights=weights,
    config=(
        unwritten("apply_residual_connection_post_layernorm", False),
        dropout("hidden_dropout"),
        either_name("width", "hidden_size", "n_embed"),
        size("depth", "num_hidden_layers"),
        size("attention.heads", "num_attention_heads"),
        Entry(_read_shape, _write_shape, ("attention.kv_heads",), {"feedforward.parallel": (False, True, "two_norms")}),
        Entry(
            lambda config, before: {"feedforward.hidden": config.size("ffn_hidden_size", 4 * before["width"])},
            lambda model: {"ffn_hidden_size": model.inner},
            ("feedforward.hidden",),
        ),
        choice("feedforward.activation", "activation", _ACTIVATIONS),
        size("context", "max_position_embeddings", 2048),
        Entry(
            _read_position,
            _write_position,
            ROPE_FREE,
            {"position.kind": ("rotary", "alibi"), "position.scaling": SCALINGS, "position.scaled": (True,)},
        ),
        always("norm.kind", "layer"),
        number("norm.eps", "layer_norm_epsilon", 1e-5),
        Entry(_read_biases, lambda model: {"bias": model.bias}, limited={"bias": (True, False), "norm.bias": (None, True)}),
        UNBIASED_OUTPUT,
        either("tied", "tie_word_embeddings", True),
        written(attention_dropout=0.0),
    ),
    together=_together,
)
