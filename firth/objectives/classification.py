"""−log p(class | text). Letters: B batch, T time, C classes, N texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from firth.errors import ConfigError
from firth.models import Classifier


@dataclass(frozen=True)
class ClassificationConfig:
    """The `[objective]` table of a recipe."""

    kind: Literal["classification"] = "classification"
    # What a text of each class counts in training: one number per class, in the order of data.labels; "balanced": see `balanced`.
    weights: Literal["balanced"] | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.weights, tuple) and not all(math.isfinite(weight) and weight > 0 for weight in self.weights):
            raise ConfigError(f"objective.weights is {list(self.weights)}; expected a number above 0 for each class")


def classification(
    model: Classifier,
    token_BT: Tensor,
    length_B: Tensor,
    label_B: Tensor,
    state: None = None,
    weight_C: Tensor | None = None,
) -> tuple[Tensor, None]:
    """Σ_b w_b (−log p(label_b)) / Σ_b w_b, in nats, where w_b is the weight of text b's class, 1 without weights.

    The softmax is in float32; no state is carried to another text."""
    logits_BC = model(token_BT, length_B)
    weight_C = None if weight_C is None else weight_C.to(logits_BC.device)
    return F.cross_entropy(logits_BC.float(), label_B, weight_C), None


def weights(config: ClassificationConfig, label_N: NDArray[np.int64], labels: Sequence[str]) -> NDArray[np.float64] | None:
    """What a text of each class counts, where not all count the same."""
    if config.weights is None:
        return None
    if config.weights == "balanced":
        return balanced(label_N, len(labels))
    if len(config.weights) != len(labels):
        raise ConfigError(
            f"objective.weights has {len(config.weights)} numbers, and there are {len(labels)} classes: {', '.join(labels)}; "
            'give one for each, in this order, or "balanced"'
        )
    return np.array(config.weights)


def balanced(label_N: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    """w_c = N / (C n_c), so that each of the C classes weighs as much as any other, and the N texts weigh N together. Of a class
    that no text has (it then weighs nothing anyhow) n_c is 1."""
    return len(label_N) / (classes * np.bincount(label_N, minlength=classes).clip(min=1))
