"""The weights of a normalised linear attention as a score for attend(): p = softmax(ln φ(q)·φ(k)) is φ(q)·φ(k) over its sum."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from firth.layers.attention.score import Score
from firth.layers.linear_attention.features import FeatureMap


@dataclass(frozen=True)
class LogProduct(Score):
    """a(q, k) = ln φ(q)·φ(k), for feature maps whose products are positive."""

    features: FeatureMap

    def between(self, q_BGJQD: Tensor, k_BGJKD: Tensor) -> Tensor:
        return self.features.between(q_BGJQD, k_BGJKD).log()
