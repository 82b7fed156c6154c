"""Objectives: what training minimises for each prediction, a function of its logits. `OBJECTIVES` collects them.

Letters: N predictions, V classes or tokens.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.ideas import Idea, Ideas


class Objective(Idea):
    unit: ClassVar[str] = ""  # of a loss, for reports; if empty, the title

    @classmethod
    def loss(cls, logits_NV: Tensor, target_N: Tensor) -> Tensor:
        """ℓ_N, in float32 or float64."""
        raise NotImplementedError

    @classmethod
    def mean(cls, logits_NV: Tensor, target_N: Tensor, weight_V: Tensor | None = None) -> Tensor:
        """Σ_n w_n ℓ_n / Σ_n w_n, where w_n is the weight of the target of n, 1 without weights."""
        loss_N = cls.loss(logits_NV, target_N)
        return loss_N.mean() if weight_V is None else (weight_V[target_N] * loss_N).sum() / weight_V[target_N].sum()


class CrossEntropy(Objective):
    kind, label, unit = "cross-entropy", "cross-entropy", "nats"
    about = "negative log-probability of the target"
    latex = r"-\log p_y"

    @classmethod
    def loss(cls, logits_NV: Tensor, target_N: Tensor) -> Tensor:
        return F.cross_entropy(logits_NV, target_N, reduction="none")

    @classmethod
    def mean(cls, logits_NV: Tensor, target_N: Tensor, weight_V: Tensor | None = None) -> Tensor:
        return F.cross_entropy(logits_NV, target_N, weight_V)


class SquaredError(Objective):
    """The Brier score (1950), from 0 to 2. Its gradient has a factor p (1 − p): a prediction that is wrong with certainty has
    almost none, where that of the cross-entropy, p − y, is largest."""

    kind, label, unit = "squared-error", "squared error", "squared error"
    about = "squared distance between the probabilities and the one-hot target (the Brier score)"
    latex = r"\sum_v (p_v - [v = y])^2"

    @classmethod
    def loss(cls, logits_NV: Tensor, target_N: Tensor) -> Tensor:
        p_NV = torch.softmax(logits_NV, -1)
        return (p_NV - F.one_hot(target_N, p_NV.shape[1])).square().sum(-1)


OBJECTIVES: Ideas[type[Objective]] = Ideas("objective", Objective, (CrossEntropy, SquaredError))
LossKind = Annotated[str, OBJECTIVES]
USUAL = CrossEntropy.kind
