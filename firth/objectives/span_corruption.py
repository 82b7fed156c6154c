"""−log p(y_t | y_<t, x), where x is a text with spans cut out and y what was cut out; see text/batches/span_corruption.py.

The loss is that of a translation, from one to the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from firth.errors import ConfigError
from firth.objectives.translation import translation as span_corruption

__all__ = ["SpanCorruptionConfig", "span_corruption"]


@dataclass(frozen=True)
class SpanCorruptionConfig:
    """The `[objective]` table of a recipe."""

    kind: Literal["span-corruption"] = "span-corruption"
    share: float = 0.15  # of the tokens, cut out
    length: float = 3.0  # of a span, on average

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ConfigError(f"objective.share is {self.share}; expected 0 < share < 1, for example 0.15")
        if not self.length >= 1:
            raise ConfigError(f"objective.length is {self.length}; expected 1 or more, for example 3")
