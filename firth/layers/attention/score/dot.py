"""Dot product q·k (Luong et al. 2015), and the same divided by √D (Vaswani et al. 2017, eq. 1), the default.

With q and k of variance 1, q·k has variance D: the scale keeps scores of order 1 at every width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from firth.layers.attention.score.base import Score, ScoreLayer, shifted_key


@dataclass(frozen=True)
class Dot(Score):
    scaled: bool

    def default_scale(self, width: int) -> float:
        return 1.0 / math.sqrt(width) if self.scaled else 1.0

    def between(self, q_BGJQD: Tensor, k_BGJKD: Tensor) -> Tensor:
        if k_BGJKD.ndim == 6:
            return (k_BGJKD @ q_BGJQD.unsqueeze(-1)).squeeze(-1)
        return q_BGJQD @ k_BGJKD.mT


SCALED_DOT = Dot(scaled=True)
DOT = Dot(scaled=False)


class DotLayer(ScoreLayer):
    kind = "dot"
    label = "dot product"
    about = "q · k (Luong et al. 2015)."
    latex = r"q^\top k"

    def score(self, attend: Any) -> Score:
        return DOT

    @classmethod
    def equation(cls, shift: str = "") -> str:
        return f"q · {shifted_key(shift)}"


class ScaledDotLayer(ScoreLayer):
    kind = "scaled_dot"
    label = "scaled dot product"
    about = "q · k divided by the root of its width, the default (Vaswani et al. 2017)."
    latex = r"q^\top k / \sqrt{D}"

    @property
    def scale(self) -> float:
        return SCALED_DOT.default_scale(self.width)

    def score(self, attend: Any) -> Score:
        return SCALED_DOT

    @classmethod
    def equation(cls, shift: str = "") -> str:
        return f"q · {shifted_key(shift)}"
