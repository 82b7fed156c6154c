"""Beam search and decoding with single settings instead of a whole DecodingConfig."""

from __future__ import annotations

from typing import Any

import firth.decoding.search.beam
import firth.decoding.search.sequences
from firth.decoding.config import DecodingConfig
from firth.decoding.search.beam import Hypothesis

NAMES = {
    "size": "beam",
    "groups": "beam_groups",
    "repetition": "repetition_penalty",
    "rules": "beam_rules",
    "early": "early_stopping",
}


def beam(model: Any, state: Any, prompt_BT: Any, *, penalty: float = 0.0, diversity: float = 0.0, **settings: Any) -> Any:
    """`size`, `groups`, `repetition`, `rules` and `early` are settings of DecodingConfig, all else arguments of beam()."""
    own = {NAMES[name]: settings.pop(name) for name in list(settings) if name in NAMES}
    config = DecodingConfig(penalty=penalty, diversity=diversity, **own)
    return firth.decoding.search.beam.beam(model, state, prompt_BT, config, **settings)


def greedy(model: Any, state: Any, prompt_BT: Any, *, repetition: float = 1.0, **settings: Any) -> list[Hypothesis]:
    config = DecodingConfig(temperature=0.0, repetition_penalty=repetition)
    return firth.decoding.search.sequences.decode(model, state, prompt_BT, config, range(len(prompt_BT)), **settings)
