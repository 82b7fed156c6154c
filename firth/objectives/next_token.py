"""−log p(x_t | x_<t). Letters: B batch, T time, V vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from firth.layers.cross_entropy import cross_entropy
from firth.models import LanguageModel


@dataclass(frozen=True)
class ObjectiveConfig:
    """The `[objective]` table of a recipe."""

    kind: Literal["next-token"] = "next-token"


def next_token(model: LanguageModel, input_BT: Tensor, target_BT: Tensor, state: Any = None) -> tuple[Tensor, Any]:
    """Mean negative log-likelihood in nats per token, and the state after the window. The softmax is in float32."""
    x_BTd, state = model.hidden(input_BT, state)
    return cross_entropy(x_BTd, *model.output_layer(), target_BT), state
