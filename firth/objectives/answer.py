"""−log p(start of the answer) and −log p(its end). Letters: B batch, T time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from firth.errors import ConfigError
from firth.models.answer_reader import SpanReader


@dataclass(frozen=True)
class AnswerConfig:
    """The `[objective]` table of a recipe."""

    kind: Literal["answer"] = "answer"
    longest: int = 30  # tokens of the longest answer that is given

    def __post_init__(self) -> None:
        if self.longest < 1:
            raise ConfigError(f"objective.longest is {self.longest}; expected at least 1")


def answer(
    model: SpanReader,
    token_BT: Tensor,
    length_B: Tensor,
    first_B: Tensor,
    start_B: Tensor,
    end_B: Tensor,
    state: None = None,
) -> tuple[Tensor, None]:
    """Half the sum of both, in nats, the mean of the batch. The softmax is in float32; no state is carried to another text."""
    start_BT, end_BT = model(token_BT, length_B, first_B)
    return (F.cross_entropy(start_BT.float(), start_B) + F.cross_entropy(end_BT.float(), end_B)) / 2, None
