"""LLaMA 1 to 3 (Touvron et al. 2023; Grattafiori et al. 2024) and models of its shape, such as SmolLM2 and TinyLlama: rotary
positions, RMSNorm before each sublayer, SwiGLU, no biases, grouped-query attention."""

from __future__ import annotations

from firth.interop.families.family import Family
from firth.interop.families.llama_shape import SILU, sizes, weight_map
from firth.interop.families.rope import ROPE
from firth.interop.files.config_map import expected, unwritten

LLAMA = Family(
    title="LLaMA",
    model_type="llama",
    architecture="LlamaForCausalLM",
    objective="next-token",
    weights=weight_map(),
    config=(
        *sizes(context=2048),
        SILU,
        expected("attention_bias", False),
        expected("mlp_bias", False),
        unwritten("rope_interleaved", False),
        ROPE,
    ),
)
