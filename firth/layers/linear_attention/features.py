"""Feature maps φ: linear attention replaces exp(q·k) by φ(q)·φ(k).

Letters: D width of q and k, F width of φ, Q queries, K keys.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor


class FeatureMap(ABC):
    pointwise = True  # whether φ acts on each number alone: then F = D, and a kernel can apply it on the fly

    @abstractmethod
    def map(self, x_TD: Tensor) -> Tensor:
        """φ(x), along the last axis."""

    def between(self, q_QD: Tensor, k_KD: Tensor) -> Tensor:
        """φ(q)·φ(k) of all pairs: Q,K."""
        return self.map(q_QD) @ self.map(k_KD).mT

    def width(self, D: int) -> int:
        return D


class Identity(FeatureMap):
    """φ(x) = x: gated linear attention (Yang et al. 2023)."""

    def map(self, x_TD: Tensor) -> Tensor:
        return x_TD


class EluPlusOne(FeatureMap):
    """φ(x) = elu(x) + 1: x + 1 for x > 0, eˣ otherwise, so that all weights are positive (Katharopoulos et al. 2020, eq. 7)."""

    def map(self, x_TD: Tensor) -> Tensor:
        if torch.compiler.is_compiling():  # torch.compile gets the layout of elu's gradient wrong if x is a view
            return torch.where(x_TD > 0, x_TD + 1, x_TD.clamp(max=0).exp())
        return F.elu(x_TD) + 1


class Taylor(FeatureMap):
    """φ(q)·φ(k) = 1 + s + s²/2 with s = q·k / √D, the Taylor polynomial of exp(s) of second order (Arora et al. 2024, §4.1). It
    is at least ½. φ(x) = [1, x / D^¼, x ⊗ x / √(2D)] has 1 + D + D² numbers, so D is small."""

    pointwise = False

    def map(self, x_TD: Tensor) -> Tensor:
        D = x_TD.shape[-1]
        square_TF = (x_TD.unsqueeze(-1) * (x_TD * (2 * D) ** -0.5).unsqueeze(-2)).flatten(-2)
        return torch.cat((torch.ones_like(x_TD[..., :1]), x_TD * D**-0.25, square_TF), dim=-1)

    def between(self, q_QD: Tensor, k_KD: Tensor) -> Tensor:
        s_QK = (q_QD * (1 / math.sqrt(q_QD.shape[-1]))) @ k_KD.mT
        return 1 + s_QK + 0.5 * s_QK.square()

    def width(self, D: int) -> int:
        return 1 + D + D * D


IDENTITY, ELU_PLUS_ONE, TAYLOR = Identity(), EluPlusOne(), Taylor()
