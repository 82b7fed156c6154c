"""How well a key matches a query: a(q, k), whose softmax are the weights (S15 of the lectures).

    dot       q·k                          Luong et al. 2015
    scaled    q·k / √D                     Vaswani et al. 2017, the default
    Gaussian  −½‖q − k‖²                   Nadaraya 1964, Watson 1964
    bilinear  qᵀ M k                       q and k may differ in width
    additive  w·tanh(W_qᵀ q + W_kᵀ k)      Bahdanau et al. 2015

`reduced` carries out what a score does to q and k alone, so that kernels meet only three forms: dot, Gaussian, and
w·tanh(q + k). Letters: B batch, H query heads, G key/value heads, J = H / G, Q, K, D query width, C key width, A inner width.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from firth.errors import ConfigError

ScoreKind = Literal["scaled_dot", "dot", "gaussian", "bilinear", "additive"]


class Score(ABC):
    @abstractmethod
    def between(self, q_BGJQD: Tensor, k_BGJKD: Tensor) -> Tensor:
        """a(q, k) for all pairs: B,G,J,Q,K. The keys may also differ by query: B,G,J,Q,K,D."""

    def default_scale(self, width: int) -> float:
        return 1.0

    def check(self, H: int, G: int, D: int, C: int) -> None:
        """Raise where q of width D and k of width C do not fit."""
        if D != C:
            raise ConfigError(
                f"q has width {D} and k has width {C}; this score compares equal widths, score.bilinear(M) different ones"
            )

    def reduced(self, q_BHQD: Tensor, k_BGKC: Tensor) -> tuple[Score, Tensor, Tensor]:
        return self, q_BHQD, k_BGKC

    def of_heads(self, head_H: Tensor) -> Score:
        """The score as the given query heads have it, after `reduced`."""
        return self


@dataclass(frozen=True)
class Dot(Score):
    scaled: bool

    def default_scale(self, width: int) -> float:
        return 1.0 / math.sqrt(width) if self.scaled else 1.0  # Vaswani et al. 2017, eq. 1

    def between(self, q_BGJQD: Tensor, k_BGJKD: Tensor) -> Tensor:
        if k_BGJKD.ndim == 6:
            return (k_BGJKD @ q_BGJQD.unsqueeze(-1)).squeeze(-1)
        return q_BGJQD @ k_BGJKD.mT


@dataclass(frozen=True)
class Gaussian(Score):
    def between(self, q_BGJQD: Tensor, k_BGJKD: Tensor) -> Tensor:
        # In float32 at least, whatever q and k are: the norms are large and cancel against q·k.
        wide = torch.promote_types(q_BGJQD.dtype, torch.float32)
        q_BGJQD, k_BGJKD = q_BGJQD.to(wide), k_BGJKD.to(wide)
        if k_BGJKD.ndim == 6:
            return -0.5 * (q_BGJQD.unsqueeze(-2) - k_BGJKD).square().sum(-1)
        # Without the Q×K×D differences. −½‖q‖² is the same for all keys and cancels in the softmax; it is part of the score.
        return q_BGJQD @ k_BGJKD.mT + half_square(k_BGJKD).unsqueeze(-2) + half_square(q_BGJQD).unsqueeze(-1)


@dataclass(frozen=True, eq=False)
class Bilinear(Score):
    M_HDC: Tensor  # or one M_DC for all heads

    def check(self, H: int, G: int, D: int, C: int) -> None:
        _fits("score.bilinear's M", self.M_HDC, (H, D, C))

    def reduced(self, q_BHQD: Tensor, k_BGKC: Tensor) -> tuple[Score, Tensor, Tensor]:
        return DOT, q_BHQD @ self.M_HDC.to(q_BHQD.dtype), k_BGKC

    def between(self, q_BGJQD: Tensor, k_BGJKD: Tensor) -> Tensor:
        raise NotImplementedError("a bilinear score is reduced to a dot product before it is computed")


@dataclass(frozen=True, eq=False)
class Additive(Score):
    w_HA: Tensor  # or one w_A for all heads
    W_q_HDA: Tensor | None = None  # or one for all heads; none where q is projected already
    W_k_GCA: Tensor | None = None

    def check(self, H: int, G: int, D: int, C: int) -> None:
        A_q, A_k = D, C
        if self.W_q_HDA is not None:
            A_q = self.W_q_HDA.shape[-1] if self.W_q_HDA.ndim else 0
            _fits("score.additive's W_q", self.W_q_HDA, (H, D, A_q))
        if self.W_k_GCA is not None:
            A_k = self.W_k_GCA.shape[-1] if self.W_k_GCA.ndim else 0
            _fits("score.additive's W_k", self.W_k_GCA, (G, C, A_k))
        if A_q != A_k:
            raise ConfigError(
                f"score.additive adds a query of width {A_q} to a key of width {A_k}; W_q and W_k must bring both to one"
            )
        _fits("score.additive's w", self.w_HA, (H, A_q))

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


SCALED_DOT = Dot(scaled=True)
DOT = Dot(scaled=False)
GAUSSIAN = Gaussian()


def bilinear(M_HDC: Tensor) -> Score:
    return Bilinear(M_HDC)


def additive(w_HA: Tensor, W_q_HDA: Tensor | None = None, W_k_GCA: Tensor | None = None) -> Score:
    return Additive(w_HA, W_q_HDA, W_k_GCA)


def half_square(x: Tensor) -> Tensor:
    """−½‖x‖²."""
    return -0.5 * x.square().sum(-1)


def _fits(name: str, given: Tensor, per_head: tuple[int, ...]) -> None:
    if tuple(given.shape) not in (per_head, per_head[1:]):
        raise ConfigError(
            f"{name} has shape {tuple(given.shape)}; expected {per_head} (one per head) or {per_head[1:]} (one for all)"
        )
