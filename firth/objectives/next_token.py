"""−log p(x_t | x_<t). Letters: B batch, T time, V vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor

from firth.models import LanguageModel


@dataclass(frozen=True)
class ObjectiveConfig:
    """The `[objective]` table of a recipe."""

    kind: Literal["next-token"] = "next-token"


def next_token(model: LanguageModel, input_BT: Tensor, target_BT: Tensor, state: Any = None) -> tuple[Tensor, Any]:
    """Mean negative log-likelihood in nats per token, and the state after the window. The softmax is in float32."""
    logits_BTV, state = model(input_BT, state)
    return F.cross_entropy(logits_BTV.flatten(0, 1).float(), target_BT.flatten()), state
