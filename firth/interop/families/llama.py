"""LLaMA 1 to 3 (Touvron et al. 2023; Grattafiori et al. 2024) and models of its shape, such as SmolLM2 and TinyLlama: rotary
positions, RMSNorm before each sublayer, SwiGLU, no biases, grouped-query attention."""

from __future__ import annotations

from typing import Any

from firth.interop.families.family import Family
from firth.interop.families.llama_shape import FREE, LIMITED, read_sizes, weight_map, write_sizes
from firth.interop.families.rope import read_rope, write_rope
from firth.interop.files.foreign_config import ForeignConfig
from firth.models import TransformerConfig
from firth.models.config import transformer


def read(config: ForeignConfig) -> TransformerConfig:
    config.expect("hidden_act", "silu", "swish")
    config.expect("attention_bias", False)
    config.expect("mlp_bias", False)
    config.expect("rope_interleaved", False)
    sizes = read_sizes(config, context=2048)
    return transformer(TransformerConfig, {**sizes, **read_rope(config, sizes["context"])})


def write(model: Any) -> dict[str, Any]:
    return {**write_sizes(model), "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, **write_rope(model)}


LLAMA = Family(
    title="LLaMA",
    model_type="llama",
    architecture="LlamaForCausalLM",
    objective="next-token",
    weights=weight_map(),
    read=read,
    write=write,
    free=FREE,
    limited=LIMITED,
)
