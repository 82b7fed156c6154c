"""Mistral 7B and its successors (Jiang et al. 2023): LLaMA, whose layers may all attend to a window of the last tokens.

Their window and ours both count the current token."""

from __future__ import annotations

from firth.interop.families.family import Family
from firth.interop.families.llama_shape import SILU, sizes, weight_map
from firth.interop.families.rope import ROPE
from firth.interop.families.windows import one_window

MISTRAL = Family(
    title="Mistral",
    model_type="mistral",
    architecture="MistralForCausalLM",
    objective="next-token",
    weights=weight_map(),
    config=(*sizes(context=131_072), SILU, one_window(4096), ROPE),
)
