"""Bilinear: qᵀ M k (Luong et al. 2015, "general"); q and k may differ in width. It reduces to a dot product, (Mᵀq)·k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from firth.layers.attention.score.base import Score, ScoreExample, ScoreLayer, Shape, check_shape, shifted_key
from firth.layers.attention.score.dot import DOT


@dataclass(frozen=True, eq=False)
class Bilinear(Score):
    M_HDC: Tensor  # or one M_DC for all heads

    def check(self, H: int, G: int, D: int, C: int) -> None:
        check_shape("score.bilinear's M", self.M_HDC, (H, D, C))

    def reduced(self, q_BHQD: Tensor, k_BGKC: Tensor) -> tuple[Score, Tensor, Tensor]:
        return DOT, q_BHQD @ self.M_HDC.to(q_BHQD.dtype), k_BGKC

    def between(self, q_BGJQD: Tensor, k_BGJKD: Tensor) -> Tensor:
        raise NotImplementedError("a bilinear score is reduced to a dot product before it is computed")


def bilinear(M_HDC: Tensor) -> Score:
    return Bilinear(M_HDC)


class BilinearLayer(ScoreLayer):
    """M is applied before positions turn q: (R_t Mᵀq)·(R_s k) depends on s − t alone, (R_t q)ᵀ M (R_s k) does not."""

    kind = "bilinear"
    about = "A dot product through a learned matrix (Luong et al. 2015)."
    latex = r"q^\top M k"
    reduces = True
    projects_query = True

    def layer_parameters(self) -> dict[str, Shape]:
        return {"M_HDD": (self.heads, self.width, self.width)}

    def draw(self, name: str, parameter: Tensor, generator: torch.Generator) -> None:
        parameter.normal_(0.0, 1 / self.width, generator=generator)  # qᵀMk sums D² products: of order 1

    def reduce_query(self, q_BHTD: Tensor, layer: Any) -> Tensor:
        q_BHTD = q_BHTD @ layer.M_HDD
        return q_BHTD

    def score(self, attend: Any) -> Score:
        return DOT

    @classmethod
    def equation(cls, shift: str = "") -> str:
        return f"qᵀ M {shifted_key(shift)}"

    def examples(self) -> dict[str, ScoreExample]:
        return {"M": ScoreExample((self.heads, self.width, self.width), self.width)}

    def of_examples(self, parameters: dict[str, Tensor]) -> Score:
        return bilinear(parameters["M"])
