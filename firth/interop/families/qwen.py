"""Qwen2 and Qwen2.5 (Yang et al. 2024): LLaMA with biases on queries, keys and values. Qwen3 (Yang et al. 2025): without them,
but with normalised queries and keys. In both, the later layers may attend to a window."""

from __future__ import annotations

from typing import Any

from firth.interop.families.family import Family
from firth.interop.families.llama import PRE_NORMS, QK_NORMS, SILU, sizes, weight_map
from firth.interop.families.rope import ROPE
from firth.interop.families.windows import MASKS, WINDOWS_FREE, layer_types, settings_of
from firth.interop.files.config_map import Entry, Settings, always, expected
from firth.interop.files.foreign_config import ForeignConfig

_CONTEXT, _FIRST_LOCAL = 32_768, 28  # where config.json says nothing


def _read_windows(config: ForeignConfig, before: Settings) -> Settings:
    depth, span = before["depth"], config.optional("sliding_window", 4096)
    first = config.number("max_window_layers", _FIRST_LOCAL)
    if not config.expect("use_sliding_window", False, True):
        span = None
    usual = ["full_attention" if span is None or layer < first else "sliding_attention" for layer in range(depth)]
    return settings_of(config.words("layer_types") or usual, span, depth)


def _write_windows(model: Any) -> dict[str, Any]:
    types, windows = layer_types(model), model.attention.mask == "window"
    return {
        "use_sliding_window": windows,
        "sliding_window": model.attention.span,
        "max_window_layers": types.index("sliding_attention") if windows and "sliding_attention" in types else model.depth,
        "layer_types": types,
    }


_REST = (SILU, Entry(_read_windows, _write_windows, WINDOWS_FREE, MASKS), ROPE)

QWEN2 = Family(
    title="Qwen2",
    model_type="qwen2",
    architecture="Qwen2ForCausalLM",
    weights=weight_map(),
    config=(*sizes(_CONTEXT), *_REST, always("bias", "qkv")),
)

QWEN3 = Family(
    title="Qwen3",
    model_type="qwen3",
    architecture="Qwen3ForCausalLM",
    weights=weight_map({**PRE_NORMS, **QK_NORMS}),
    config=(*sizes(_CONTEXT, head_width=128), *_REST, expected("attention_bias", False), always("attention.qk_norm", True)),
)
