"""Qwen2 and Qwen2.5 (Yang et al. 2024): LLaMA with biases on queries, keys and values. Qwen3 (Yang et al. 2025): without them,
but with normalised queries and keys. In both, the later layers may attend to a window."""

from __future__ import annotations

from typing import Any

from firth.interop.families.family import Family
from firth.interop.families.llama_shape import FREE, LIMITED, PRE_NORMS, QK_NORMS, read_sizes, weight_map, write_sizes
from firth.interop.families.rope import read_rope, write_rope
from firth.interop.families.windows import MASKS, WINDOWS_FREE, layer_types, settings_of
from firth.interop.files.foreign_config import ForeignConfig
from firth.models import TransformerConfig
from firth.models.config import transformer

_CONTEXT, _FIRST_LOCAL = 32_768, 28  # where config.json says nothing


def _read(config: ForeignConfig, head_width: int | None, **settings: Any) -> TransformerConfig:
    config.expect("hidden_act", "silu", "swish")
    sizes = read_sizes(config, context=_CONTEXT, head_width=head_width)
    depth, span, first = sizes["depth"], config.optional("sliding_window", 4096), config.number("max_window_layers", _FIRST_LOCAL)
    if not config.expect("use_sliding_window", False, True):
        span = None
    usual = ["full_attention" if span is None or layer < first else "sliding_attention" for layer in range(depth)]
    windows = settings_of(config.words("layer_types") or usual, span, depth)
    return transformer(TransformerConfig, {**sizes, **settings, **windows, **read_rope(config, sizes["context"])})


def read_qwen2(config: ForeignConfig) -> TransformerConfig:
    return _read(config, None, bias="qkv")


def read_qwen3(config: ForeignConfig) -> TransformerConfig:
    config.expect("attention_bias", False)
    return _read(config, 128, qk_norm=True)


def write(model: Any) -> dict[str, Any]:
    types, windows = layer_types(model), model.attention.mask == "window"
    return {
        **write_sizes(model),
        "hidden_act": "silu",
        "use_sliding_window": windows,
        "sliding_window": model.attention.span,
        "max_window_layers": types.index("sliding_attention") if windows and "sliding_attention" in types else model.depth,
        "layer_types": types,
        **write_rope(model),
    }


QWEN2 = Family(
    title="Qwen2",
    model_type="qwen2",
    architecture="Qwen2ForCausalLM",
    objective="next-token",
    weights=weight_map(),
    read=read_qwen2,
    write=write,
    free=FREE | WINDOWS_FREE,
    limited={**LIMITED, "attention.mask": MASKS, "bias": ("qkv",)},
)

QWEN3 = Family(
    title="Qwen3",
    model_type="qwen3",
    architecture="Qwen3ForCausalLM",
    objective="next-token",
    weights=weight_map({**PRE_NORMS, **QK_NORMS}),
    read=read_qwen3,
    write=lambda model: {**write(model), "attention_bias": False},
    free=FREE | WINDOWS_FREE,
    limited={**LIMITED, "attention.mask": MASKS, "attention.qk_norm": (True,)},
)
