"""Cosine with a learned temperature: τ_h q̂·k̂, q̂ = q/‖q‖, k̂ = k/‖k‖ (Henry et al. 2020, "Query-Key Normalization").

Scores stay within ±τ_h however long q and k become, which keeps the training of large models stable (Dehghani et al. 2023, §2.1).
It reduces to a dot product, (τ_h q̂)·k̂. τ is stored as its logarithm, so that it stays positive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from firth.layers.attention.score.base import Score, ScoreExample, ScoreLayer, Shape, check_shape
from firth.layers.attention.score.dot import DOT

SHORTEST = 1e-6  # a shorter vector is divided by this instead of its norm, so that zero stays zero and has a gradient


@dataclass(frozen=True, eq=False)
class Cosine(Score):
    log_tau_H: Tensor  # or one number for all heads

    def check(self, H: int, G: int, D: int, C: int) -> None:
        super().check(H, G, D, C)
        check_shape("score.cosine's log_tau", self.log_tau_H, (H,))

    def reduced(self, q_BHQD: Tensor, k_BGKC: Tensor) -> tuple[Score, Tensor, Tensor]:
        return DOT, unit(q_BHQD, self.log_tau_H), unit(k_BGKC)

    def between(self, q_BGJQD: Tensor, k_BGJKD: Tensor) -> Tensor:
        raise NotImplementedError("a cosine score is reduced to a dot product before it is computed")


def cosine(log_tau_H: Tensor) -> Score:
    return Cosine(log_tau_H)


def unit(x_BHTD: Tensor, log_tau_H: Tensor | None = None) -> Tensor:
    """x / ‖x‖, times τ_h if given. At least float32 inside, rounded once."""
    wide = torch.promote_types(x_BHTD.dtype, torch.float32)
    factor_BHT1 = torch.linalg.vector_norm(x_BHTD, dim=-1, keepdim=True, dtype=wide).clamp_min(SHORTEST).reciprocal()
    if log_tau_H is not None:
        factor_BHT1 = factor_BHT1 * log_tau_H.to(wide).exp().view(-1, 1, 1)
    unit_BHTD: Tensor = (x_BHTD * factor_BHT1).to(x_BHTD.dtype)
    return unit_BHTD


class CosineLayer(ScoreLayer):
    """q and k are normalised before positions turn them, and keys before they are cached: once each."""

    kind = "cosine"
    about = "The cosine of q and k, times a learned temperature (Henry et al. 2020)."
    latex = r"\tau_h \, \frac{q^\top k}{\lVert q \rVert \lVert k \rVert}"
    reduces = True

    def attend_parameters(self) -> dict[str, Shape]:
        return {"log_tau_H": (self.heads,)}

    def draw(self, name: str, parameter: Tensor, generator: torch.Generator) -> None:
        parameter.fill_(0.5 * math.log(self.width))  # τ = √D: q̂·k̂ of random vectors has variance 1/D, so scores are of order 1

    def reduce_query(self, q_BHTD: Tensor, layer: Any) -> Tensor:
        return unit(q_BHTD, layer.attend.log_tau_H)

    def reduce_key(self, k_BGTD: Tensor, layer: Any) -> Tensor:
        return unit(k_BGTD)

    def score(self, attend: Any) -> Score:
        return DOT if attend.reduced else Cosine(attend.log_tau_H)

    @classmethod
    def equation(cls, shift: str = "") -> str:
        return f"τ q̂ · {f'(k̂{shift})' if shift else 'k̂'}"

    def examples(self) -> dict[str, ScoreExample]:
        return {"log_tau": ScoreExample((self.heads,))}

    def of_examples(self, parameters: dict[str, Tensor]) -> Score:
        return cosine(parameters["log_tau"])
