"""Mistral 7B and its successors (Jiang et al. 2023): LLaMA, whose layers may all attend to a window of the last tokens.

Their window and ours both count the current token."""

from __future__ import annotations

from typing import Any

from firth.interop.families.family import Family
from firth.interop.families.llama_shape import FREE, LIMITED, read_sizes, weight_map, write_sizes
from firth.interop.families.rope import read_rope, write_rope
from firth.interop.families.windows import MASKS, settings_of
from firth.interop.files.foreign_config import ForeignConfig
from firth.models import TransformerConfig
from firth.models.config import transformer


def read(config: ForeignConfig) -> TransformerConfig:
    config.expect("hidden_act", "silu", "swish")
    sizes = read_sizes(config, context=131_072)
    span = config.optional("sliding_window", 4096)
    kind = "full_attention" if span is None else "sliding_attention"
    windows = settings_of([kind] * sizes["depth"], span, sizes["depth"])
    return transformer(TransformerConfig, {**sizes, **windows, **read_rope(config, sizes["context"])})


def write(model: Any) -> dict[str, Any]:
    return {**write_sizes(model), "hidden_act": "silu", "sliding_window": model.attention.span, **write_rope(model)}


MISTRAL = Family(
    title="Mistral",
    model_type="mistral",
    architecture="MistralForCausalLM",
    objective="next-token",
    weights=weight_map(),
    read=read,
    write=write,
    free=FREE | {"attention.span"},
    limited={**LIMITED, "attention.mask": MASKS},
)
