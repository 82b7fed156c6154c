"""Gemma 1 (Gemma Team 2024): LLaMA with scaled embeddings and gates of approximate GELU. Gemma 2 (2024): norms before and after
each sublayer, windows in every other layer, bounds of the scores and of the logits. Gemma 3 (2025), its text models: normalised
queries and keys instead of these bounds, windows in five layers of six, with a base of their own for the rotary positions.

All store the gains of their norms as γ − 1; ours are γ. In bfloat16 that rounds the gains, once."""

from __future__ import annotations

from typing import Any

from firth.errors import DataError
from firth.interop.families.family import Family
from firth.interop.families.llama_shape import FREE, LIMITED, PRE_NORMS, QK_NORMS, read_sizes, weight_map, write_sizes
from firth.interop.families.rope import merged, read_rope, rope_settings, write_rope
from firth.interop.families.windows import MASKS, WINDOWS_FREE, layer_types, settings_of
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import PLUS_ONE
from firth.models import TransformerConfig
from firth.models.config import transformer

_GELU = "gelu_pytorch_tanh"
_HEAD_WIDTH, _SPAN = 256, 4096  # where config.json says nothing
_BASE, _LOCAL_BASE = 1_000_000.0, 10_000.0  # of Gemma 3, likewise
_PERIOD = 6  # of Gemma 3, likewise: the last layer of so many is global
_NORMS = {
    "attention_norm": "input_layernorm",
    "attention_post_norm": "post_attention_layernorm",
    "feedforward_norm": "pre_feedforward_layernorm",
    "feedforward_post_norm": "post_feedforward_layernorm",
}


def _read_sizes(config: ForeignConfig, context: int) -> dict[str, Any]:
    """The sizes that all three versions share."""
    config.expect("hidden_activation", _GELU)
    config.expect("hidden_act", _GELU, "gelu")  # "gelu" always meant the approximation
    config.expect("attention_bias", False)
    config.take("cache_implementation")
    return {
        "kind": "transformer",
        "feedforward.activation": "geglu_tanh",
        "embedding.scale": True,
        **read_sizes(config, context=context, head_width=_HEAD_WIDTH, tied=True),
    }


def _read_scores(config: ForeignConfig, head_width: int, logit_cap: float | None) -> dict[str, Any]:
    """The scale, and the bound of the logits, which is the family's where config.json says nothing."""
    scalar = config.positive("query_pre_attn_scalar", _HEAD_WIDTH)
    return {
        "norm.placement": "sandwich",
        "attention.scale": None if scalar == head_width else scalar**-0.5,
        "logit_cap": config.optional("final_logit_softcapping", logit_cap),
    }


def _per_head(sizes: dict[str, Any]) -> int:
    return int(sizes["attention.head_width"] or sizes["width"] // sizes["attention.heads"])


def read_gemma(config: ForeignConfig) -> TransformerConfig:
    sizes = _read_sizes(config, 8192)
    return transformer(TransformerConfig, {**sizes, **read_rope(config, sizes["context"])})


def read_gemma2(config: ForeignConfig) -> TransformerConfig:
    sizes = _read_sizes(config, 8192)
    depth = sizes["depth"]
    usual = ["full_attention" if layer % 2 else "sliding_attention" for layer in range(depth)]
    windows = settings_of(config.words("layer_types") or usual, config.optional("sliding_window", _SPAN), depth)
    scores, cap = _read_scores(config, _per_head(sizes), 30.0), config.optional("attn_logit_softcapping", 50.0)
    return transformer(
        TransformerConfig, {**sizes, **windows, **scores, "attention.cap": cap, **read_rope(config, sizes["context"])}
    )


def read_gemma3(config: ForeignConfig) -> TransformerConfig:
    sizes = _read_sizes(config, 131_072)
    depth = sizes["depth"]
    period = config.size("sliding_window_pattern", config.size("_sliding_window_pattern", _PERIOD))
    usual = ["sliding_attention" if (layer + 1) % period else "full_attention" for layer in range(depth)]
    windows = settings_of(config.words("layer_types") or usual, config.optional("sliding_window", _SPAN), depth)
    scores = _read_scores(config, _per_head(sizes), None)
    config.expect("attn_logit_softcapping", None)  # `transformers` reads it and computes without it
    rope = _read_bases(config, sizes["context"])
    if not windows:
        rope.pop("position.base_local")
    return transformer(TransformerConfig, {**sizes, **windows, **scores, "attention.qk_norm": True, **rope})


def _read_bases(config: ForeignConfig, context: int) -> dict[str, Any]:
    tables = ForeignConfig(config.table("rope_parameters"), "config.json: rope_parameters")
    everywhere, local = tables.table("full_attention"), tables.table("sliding_attention")
    tables.finish()
    everywhere = merged(config.table("rope_scaling"), everywhere)
    settings = rope_settings(everywhere, context, config.number("rope_theta", _BASE))
    in_windows = rope_settings(local, context, config.number("rope_local_base_freq", _LOCAL_BASE))
    if set(in_windows) != {"position.base"}:
        raise DataError(f"config.json: rope_parameters stretches the positions of windows, {local!r}; firth does not.")
    return {**settings, "position.base_local": in_windows["position.base"]}


def write_gemma(model: Any) -> dict[str, Any]:
    return {**write_sizes(model), "hidden_act": _GELU, "hidden_activation": _GELU, "attention_bias": False, **write_rope(model)}


def write_gemma2(model: Any) -> dict[str, Any]:
    return {
        **write_gemma(model),
        "query_pre_attn_scalar": model.per_head if model.attention.scale is None else _whole(model.attention.scale**-2),
        "attn_logit_softcapping": model.attention.cap,
        "final_logit_softcapping": model.logit_cap,
        "sliding_window": model.attention.span or _SPAN,
        "layer_types": layer_types(model),
    }


def write_gemma3(model: Any) -> dict[str, Any]:
    rope = write_rope(model)
    table = rope["rope_parameters"]
    base = model.position.base_local
    local = table if base is None else {"rope_type": "default", "rope_theta": base}
    return {
        **write_gemma2(model),
        "rope_local_base_freq": local["rope_theta"],
        "rope_parameters": {"full_attention": table, "sliding_attention": local},
    }


def _whole(number: float) -> float:
    """1/√n is rounded, so that its square is not quite n."""
    return round(number) if abs(number - round(number)) < 1e-9 * number else number


_GEMMA: dict[str, tuple[Any, ...]] = {**LIMITED, "feedforward.activation": ("geglu_tanh",), "embedding.scale": (True,)}
_SCORES = {"attention.scale", "attention.cap", "logit_cap"}

GEMMA = Family(
    title="Gemma",
    model_type="gemma",
    architecture="GemmaForCausalLM",
    objective="next-token",
    weights=weight_map(PRE_NORMS, PLUS_ONE),
    read=read_gemma,
    write=write_gemma,
    free=FREE,
    limited=_GEMMA,
)

GEMMA2 = Family(
    title="Gemma 2",
    model_type="gemma2",
    architecture="Gemma2ForCausalLM",
    objective="next-token",
    weights=weight_map(_NORMS, PLUS_ONE),
    read=read_gemma2,
    write=write_gemma2,
    free=FREE | WINDOWS_FREE | _SCORES,
    limited={**_GEMMA, "attention.mask": MASKS, "norm.placement": ("sandwich",)},
)

GEMMA3 = Family(
    title="Gemma 3",
    model_type="gemma3_text",
    architecture="Gemma3ForCausalLM",
    objective="next-token",
    weights=weight_map({**_NORMS, **QK_NORMS}, PLUS_ONE),
    read=read_gemma3,
    write=write_gemma3,
    free=FREE | WINDOWS_FREE | _SCORES - {"attention.cap"} | {"position.base_local"},
    limited={**_GEMMA, "attention.mask": MASKS, "norm.placement": ("sandwich",), "attention.qk_norm": (True,)},
)
