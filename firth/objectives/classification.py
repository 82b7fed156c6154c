"""−log p(class | text). Letters: B batch, T time, C classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from firth.models import Classifier


@dataclass(frozen=True)
class ClassificationConfig:
    """The `[objective]` table of a recipe."""

    kind: Literal["classification"] = "classification"


def classification(
    model: Classifier, token_BT: Tensor, length_B: Tensor, label_B: Tensor, state: None = None
) -> tuple[Tensor, None]:
    """Mean negative log-likelihood in nats per text. The softmax is in float32; no state is carried to another text."""
    logits_BC = model(token_BT, length_B)
    return F.cross_entropy(logits_BC.float(), label_B), None
