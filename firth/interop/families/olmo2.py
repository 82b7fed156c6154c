"""OLMo 2 (OLMo et al. 2024): LLaMA with norms on the output of each sublayer and none on its input, and with normalised queries
and keys, those of all heads together."""

from __future__ import annotations

from firth.interop.families.family import Family
from firth.interop.families.llama_shape import QK_NORMS, SILU, sizes, weight_map
from firth.interop.families.rope import ROPE
from firth.interop.files.config_map import always, expected

_NORMS = {"attention_post_norm": "post_attention_layernorm", "feedforward_post_norm": "post_feedforward_layernorm"}

OLMO2 = Family(
    title="OLMo 2",
    model_type="olmo2",
    architecture="Olmo2ForCausalLM",
    objective="next-token",
    weights=weight_map({**_NORMS, **QK_NORMS}),
    config=(
        *sizes(context=2048, eps=1e-5),
        SILU,
        expected("attention_bias", False),
        always("norm.placement", "after"),
        always("attention.qk_norm", "whole"),
        ROPE,
    ),
)
