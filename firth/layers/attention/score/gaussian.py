"""Gaussian: −½‖q − k‖². With it, attention is kernel regression (Nadaraya 1964, Watson 1964)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from firth.layers.attention.score.base import Score, ScoreLayer, shifted_key


@dataclass(frozen=True)
class Gaussian(Score):
    def between(self, q_BGJQD: Tensor, k_BGJKD: Tensor) -> Tensor:
        # At least float32, whatever q and k are: the norms are large and cancel against q·k.
        wide = torch.promote_types(q_BGJQD.dtype, torch.float32)
        q_BGJQD, k_BGJKD = q_BGJQD.to(wide), k_BGJKD.to(wide)
        if k_BGJKD.ndim == 6:
            return -0.5 * (q_BGJQD.unsqueeze(-2) - k_BGJKD).square().sum(-1)
        # Without the Q×K×D differences. −½‖q‖² is the same for all keys and cancels in the softmax; it is part of the score.
        return q_BGJQD @ k_BGJKD.mT + half_square(k_BGJKD).unsqueeze(-2) + half_square(q_BGJQD).unsqueeze(-1)

    def explained(self, q_BGJQD: Tensor, k_BGJKD: Tensor) -> Tensor:
        return -0.5 * (q_BGJQD.unsqueeze(-2) - k_BGJKD.unsqueeze(-3)).square().sum(-1)


GAUSSIAN = Gaussian()


class GaussianLayer(ScoreLayer):
    kind = "gaussian"
    label = "Gaussian"
    about = "How close k is to q: attention as kernel regression."
    latex = r"-\tfrac{1}{2} \lVert q - k \rVert^2"

    def score(self, attend: Any) -> Score:
        return GAUSSIAN

    @classmethod
    def equation(cls, shift: str = "") -> str:
        return f"−½ ‖q − {shifted_key(shift)}‖²"


def half_square(x: Tensor) -> Tensor:
    """−½‖x‖²."""
    return -0.5 * x.square().sum(-1)
