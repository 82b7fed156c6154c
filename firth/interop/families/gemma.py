"""Gemma 1 (Gemma Team 2024): LLaMA with scaled embeddings and gates of approximate GELU. Gemma 2 (2024): norms before and after
each sublayer, windows in every other layer, bounds of the scores and of the logits. Gemma 3 (2025), its text models: normalised
queries and keys instead of these bounds, windows in five layers of six, with a base of their own for the rotary positions.

All store the gains of their norms as γ − 1; ours are γ. In bfloat16 that rounds the gains, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firth.errors import DataError
from firth.interop.families.family import Family
from firth.interop.families.llama import PRE_NORMS, QK_NORMS, sizes, weight_map
from firth.interop.families.rope import ROPE, ROPE_FREE, SCALINGS, merged, rope_settings, write_rope
from firth.interop.families.windows import MASKS, WINDOWS_FREE, layer_types, settings_of
from firth.interop.files.config_map import Entry, Settings, always, expected, optional, unused
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.weight_map import PLUS_ONE

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


def _shared(context: int) -> tuple[Entry, ...]:
    """The settings that all three versions share."""
    return (
        expected("hidden_activation", _GELU),
        expected("hidden_act", _GELU, "gelu"),  # "gelu" always meant the approximation
        expected("attention_bias", False),
        unused("cache_implementation"),
        always("feedforward.activation", "geglu_tanh"),
        always("embedding.scale", True),
        *sizes(context, head_width=_HEAD_WIDTH, tied=True),
    )


def _scores(logit_cap: float | None) -> tuple[Entry, ...]:
    """The scale, and the bound of the logits, which is the family's where config.json says nothing."""

    def read(config: ForeignConfig, before: Settings) -> Settings:
        scalar = config.positive("query_pre_attn_scalar", _HEAD_WIDTH)
        per_head = before["attention.head_width"] or before["width"] // before["attention.heads"]
        return {"attention.scale": None if scalar == per_head else scalar**-0.5}

    def write(model: Any) -> dict[str, Any]:
        scale = model.attention.scale
        return {"query_pre_attn_scalar": model.per_head if scale is None else _whole(scale**-2)}

    return (
        always("norm.placement", "sandwich"),
        Entry(read, write, ("attention.scale",)),
        optional("logit_cap", "final_logit_softcapping", logit_cap),
    )


def _windows(usual: Callable[[ForeignConfig, int], list[str]]) -> Entry:
    """`usual`: the layer_types of a model of this depth where config.json has none."""

    def read(config: ForeignConfig, before: Settings) -> Settings:
        kinds = usual(config, before["depth"])
        return settings_of(config.words("layer_types") or kinds, config.optional("sliding_window", _SPAN), before["depth"])

    def write(model: Any) -> dict[str, Any]:
        return {"sliding_window": model.attention.span or _SPAN, "layer_types": layer_types(model)}

    return Entry(read, write, WINDOWS_FREE, MASKS)


def _of_gemma2(config: ForeignConfig, depth: int) -> list[str]:
    return ["full_attention" if layer % 2 else "sliding_attention" for layer in range(depth)]


def _of_gemma3(config: ForeignConfig, depth: int) -> list[str]:
    period = config.size("sliding_window_pattern", config.size("_sliding_window_pattern", _PERIOD))
    return ["sliding_attention" if (layer + 1) % period else "full_attention" for layer in range(depth)]


def _read_bases(config: ForeignConfig, before: Settings) -> dict[str, Any]:
    tables = ForeignConfig(config.table("rope_parameters"), "config.json: rope_parameters")
    everywhere, local = tables.table("full_attention"), tables.table("sliding_attention")
    tables.finish()
    everywhere = merged(config.table("rope_scaling"), everywhere)
    settings = rope_settings(everywhere, before["context"], config.number("rope_theta", _BASE))
    in_windows = rope_settings(local, before["context"], config.number("rope_local_base_freq", _LOCAL_BASE))
    if set(in_windows) != {"position.base"}:
        raise DataError(f"config.json: rope_parameters stretches the positions of windows, {local!r}; firth does not.")
    return settings | ({"position.base_local": in_windows["position.base"]} if "attention.span" in before else {})


def _write_bases(model: Any) -> dict[str, Any]:
    rope, base = write_rope(model), model.position.base_local
    table = rope["rope_parameters"]
    local = table if base is None else {"rope_type": "default", "rope_theta": base}
    return {
        **rope,
        "rope_local_base_freq": local["rope_theta"],
        "rope_parameters": {"full_attention": table, "sliding_attention": local},
    }


def _whole(number: float) -> float:
    """1/√n is rounded, so that its square is not quite n."""
    return round(number) if abs(number - round(number)) < 1e-9 * number else number


GEMMA = Family(
    title="Gemma",
    model_type="gemma",
    architecture="GemmaForCausalLM",
    weights=weight_map(PRE_NORMS, PLUS_ONE),
    config=(*_shared(8192), ROPE),
)

GEMMA2 = Family(
    title="Gemma 2",
    model_type="gemma2",
    architecture="Gemma2ForCausalLM",
    weights=weight_map(_NORMS, PLUS_ONE),
    config=(
        *_shared(8192),
        _windows(_of_gemma2),
        *_scores(30.0),
        optional("attention.cap", "attn_logit_softcapping", 50.0),
        ROPE,
    ),
)

GEMMA3 = Family(
    title="Gemma 3",
    model_type="gemma3_text",
    architecture="Gemma3ForCausalLM",
    weights=weight_map({**_NORMS, **QK_NORMS}, PLUS_ONE),
    config=(
        *_shared(131_072),
        _windows(_of_gemma3),
        *_scores(None),
        expected("attn_logit_softcapping", None),  # `transformers` reads it and computes without it
        always("attention.qk_norm", True),
        Entry(_read_bases, _write_bases, {*ROPE_FREE, "position.base_local"}, {"position.scaling": SCALINGS}),
    ),
)
