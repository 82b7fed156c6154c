"""The settings of [decoding] as keyword arguments. Written by docs/make_settings.py from DecodingConfig."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict


class DecodingKeywords(TypedDict, total=False):
    beam: int | None
    beam_groups: int | None
    beam_rules: Literal["wu", "transformers"] | None
    choice: str | Sequence[str] | None
    diversity: float | None
    dry_allowed_length: int | None
    dry_base: float | None
    dry_multiplier: float | None
    early_stopping: bool | None
    json_schema: str | None
    min_p: float | None
    mirostat: float | None
    mirostat_rate: float | None
    penalty: float | None
    regex: str | None
    repetition_penalty: float | None
    seed: int | None
    stop: str | Sequence[str] | None
    temperature: float | None
    tokens: int | None
    top_k: int | None
    top_p: float | None
    typical_p: float | None
    xtc_probability: float | None
    xtc_threshold: float | None
