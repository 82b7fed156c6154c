"""ALiBi: s ← s − m_h |q − k|: the farther a key, the lower its score, each head with its own slope (Press et al. 2022).

Nothing to train; it extends to longer texts than those seen in training. H query heads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.position.relative import Bias
from firth.layers.position.scheme import Draw, PositionConfig, PositionExample, PositionScheme, PositionSettings


@dataclass(frozen=True, eq=False)
class ALiBi(Bias):
    slope_H: Tensor

    def check(self, H: int, C: int, E: int) -> None:
        if len(self.slope_H) != H:
            raise ConfigError(f"position.alibi has {len(self.slope_H)} slopes for {H} query heads; expected one per head")

    def bias_BHQK(self, distance_BHQK: Tensor) -> Tensor:
        # At least float32: bfloat16 cannot distinguish 257 from 256.
        slope_H11 = self.slope_H.to(torch.promote_types(self.slope_H.dtype, torch.float32)).view(-1, 1, 1)
        return -slope_H11 * distance_BHQK.abs()

    def of_heads(self, head_H: Tensor) -> ALiBi:
        return ALiBi(self.slope_H[head_H])


@dataclass(frozen=True, kw_only=True)
class ALiBiConfig(PositionConfig):
    """Scores that fall with the distance, by a slope of each head."""

    kind: Literal["alibi"] = "alibi"
    # multiply the slopes by the factor of the scores, too, as in Falcon; only for `attention.score = "scaled_dot"`
    scaled: bool = False


class Slopes(PositionScheme):
    """ALiBi of a model; its slopes are not saved."""

    kind = "alibi"
    label = "ALiBi"
    about = "A score falls with the distance, at a slope of its head (Press et al. 2022)."
    latex = r"s_{ts} - m_h \, |t - s|"
    Config = ALiBiConfig
    acts_on_scores = True
    oracle = "alibi"
    slope_H: Tensor

    def __init__(self, heads: int, scale: float = 1.0) -> None:
        super().__init__()
        self.register_buffer("slope_H", scale * alibi(heads).slope_H, persistent=False)

    @classmethod
    def check(cls, settings: PositionSettings) -> None:
        if settings.position.scaled and settings.attention.score != "scaled_dot":
            raise ConfigError(
                'model.position.scaled only applies to model.attention.score = "scaled_dot"; given '
                f'"{settings.attention.score}". Remove it, or change the score.'
            )

    @classmethod
    def of(cls, settings: PositionSettings, bidirectional: bool) -> Self:
        scale = settings.attention.scale or settings.per_head**-0.5
        return cls(settings.attention.heads, scale if settings.position.scaled else 1.0)

    def relative(self) -> ALiBi:
        return ALiBi(self.slope_H)

    @classmethod
    def example(cls, heads: int, head_width: int, value_width: int | None, draw: Draw) -> PositionExample:
        slopes = alibi(heads)
        return PositionExample(slopes, {"m": slopes.slope_H.double()}, bias=" − m |q − k|")


def alibi(heads: int) -> ALiBi:
    """The published slopes: 2^(−8/H), 2^(−16/H), …, 2^−8. If H is not a power of two, the slopes of the power below, then every
    other slope of the power above."""
    if heads < 1:
        raise ConfigError(f"position.alibi was given {heads} heads; expected at least 1")
    below = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (h + 1) / below) for h in range(below)]
    slopes += [2 ** (-4 * (2 * h + 1) / below) for h in range(heads - below)]
    return ALiBi(torch.tensor(slopes, dtype=torch.float32))
