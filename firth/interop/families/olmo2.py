"""OLMo 2 (OLMo et al. 2024): LLaMA with norms on the output of each sublayer and none on its input, and with normalised queries
and keys, those of all heads together."""

from __future__ import annotations

from typing import Any

from firth.interop.families.family import Family
from firth.interop.families.llama_shape import FREE, LIMITED, QK_NORMS, read_sizes, weight_map, write_sizes
from firth.interop.families.rope import read_rope, write_rope
from firth.interop.files.foreign_config import ForeignConfig
from firth.models import TransformerConfig
from firth.models.config import transformer

_NORMS = {"attention_post_norm": "post_attention_layernorm", "feedforward_post_norm": "post_feedforward_layernorm"}
_SETTINGS = {"norm.placement": "after", "attention.qk_norm": "whole"}


def read(config: ForeignConfig) -> TransformerConfig:
    config.expect("hidden_act", "silu", "swish")
    config.expect("attention_bias", False)
    sizes = read_sizes(config, context=2048, eps=1e-5)
    return transformer(TransformerConfig, {**sizes, **_SETTINGS, **read_rope(config, sizes["context"])})


def write(model: Any) -> dict[str, Any]:
    return {**write_sizes(model), "hidden_act": "silu", "attention_bias": False, **write_rope(model)}


OLMO2 = Family(
    title="OLMo 2",
    model_type="olmo2",
    architecture="Olmo2ForCausalLM",
    objective="next-token",
    weights=weight_map({**_NORMS, **QK_NORMS}),
    read=read,
    write=write,
    free=FREE,
    limited={**LIMITED, **{name: (value,) for name, value in _SETTINGS.items()}},
)
