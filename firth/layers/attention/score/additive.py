"""Additive: w·tanh(W_qᵀ q + W_kᵀ k), a small network that compares q and k (Bahdanau et al. 2015, §A.1.2).

It reduces to w·tanh(q + k). Letters as in base.py; A is the inner width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention.score.base import Score, ScoreExample, ScoreLayer, Shape, check_shape


@dataclass(frozen=True, eq=False)
class Additive(Score):
    w_HA: Tensor  # or one w_A for all heads
    W_q_HDA: Tensor | None = None  # or one for all heads; None if q is already projected
    W_k_GCA: Tensor | None = None

    def check(self, H: int, G: int, D: int, C: int) -> None:
        A_q, A_k = D, C
        if self.W_q_HDA is not None:
            A_q = self.W_q_HDA.shape[-1] if self.W_q_HDA.ndim else 0
            check_shape("score.additive's W_q", self.W_q_HDA, (H, D, A_q))
        if self.W_k_GCA is not None:
            A_k = self.W_k_GCA.shape[-1] if self.W_k_GCA.ndim else 0
            check_shape("score.additive's W_k", self.W_k_GCA, (G, C, A_k))
        if A_q != A_k:
            raise ConfigError(
                f"score.additive adds a query of width {A_q} to a key of width {A_k}; W_q and W_k must map both to the same width"
            )
        check_shape("score.additive's w", self.w_HA, (H, A_q))

    def reduced(self, q_BHQD: Tensor, k_BGKC: Tensor) -> tuple[Score, Tensor, Tensor]:
        q_BHQA = q_BHQD if self.W_q_HDA is None else q_BHQD @ self.W_q_HDA.to(q_BHQD.dtype)
        k_BGKA = k_BGKC if self.W_k_GCA is None else k_BGKC @ self.W_k_GCA.to(k_BGKC.dtype)
        w_HA = self.w_HA.expand(q_BHQD.shape[1], -1)
        return Additive(w_HA), q_BHQA, k_BGKA

    def between(self, q_BGJQD: Tensor, k_BGJKD: Tensor) -> Tensor:
        k_BGJQKA = k_BGJKD if k_BGJKD.ndim == 6 else k_BGJKD.unsqueeze(-3)
        G, J = q_BGJQD.shape[1:3]
        return (torch.tanh(q_BGJQD.unsqueeze(-2) + k_BGJQKA) @ self.w_HA.to(q_BGJQD.dtype).view(G, J, 1, -1, 1)).squeeze(-1)

    def of_heads(self, head_H: Tensor) -> Additive:
        return Additive(self.w_HA[head_H])


def additive(w_HA: Tensor, W_q_HDA: Tensor | None = None, W_k_GCA: Tensor | None = None) -> Score:
    return Additive(w_HA, W_q_HDA, W_k_GCA)


class AdditiveLayer(ScoreLayer):
    """W_q and W_k are the projections of the layer, so w is the only parameter here."""

    kind = "additive"
    label = "additive (Bahdanau)"
    about = "A small network compares q and k (Bahdanau et al. 2015)."
    latex = r"w^\top \tanh(W_q^\top q + W_k^\top k)"
    projects_query = True
    projects_key = True

    def attend_parameters(self) -> dict[str, Shape]:
        return {"w_HA": (self.heads, self.width)}

    def draw(self, name: str, parameter: Tensor, generator: torch.Generator) -> None:
        parameter.normal_(0.0, self.width**-0.5, generator=generator)  # w·tanh(…) sums D products: of order 1

    def score(self, attend: Any) -> Score:
        return Additive(attend.w_HA)

    @classmethod
    def equation(cls, shift: str = "") -> str:
        return f"w · tanh(W_qᵀ q + W_kᵀ k{shift})"

    def examples(self) -> dict[str, ScoreExample]:
        fan_in = ScoreExample((self.heads, self.width, self.width), self.width)
        return {"w": ScoreExample((self.heads, self.width)), "W_q": fan_in, "W_k": fan_in}

    def of_examples(self, parameters: dict[str, Tensor]) -> Score:
        return additive(parameters["w"], parameters["W_q"], parameters["W_k"])
