from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from firth.errors import ConfigError
from firth.tasks.answer import QuestionAnsweringConfig, question_answering


def test_the_loss_is_the_mean_of_both_ends() -> None:
    """By hand: p(start) = 1/2 and 1/4, p(end) = 1/4 and 1."""
    start_BT = torch.tensor([[0.0, 0.0, -torch.inf], [math.log(2), 0.0, 0.0]])
    end_BT = torch.tensor([[math.log(3), 0.0, -torch.inf], [-torch.inf, -torch.inf, 5.0]])

    def model(token_BT: Tensor, length_B: Tensor, first_B: Tensor) -> tuple[Tensor, Tensor]:
        return start_BT, end_BT

    token_BT, length_B = torch.zeros(2, 3, dtype=torch.long), torch.tensor([3, 3])
    loss, state = question_answering(model, token_BT, length_B, length_B, torch.tensor([0, 1]), torch.tensor([1, 2]))  # type: ignore[arg-type]
    assert float(loss) == pytest.approx((math.log(2) + math.log(4) + math.log(4) + 0.0) / 4)
    assert state is None


def test_an_answer_has_a_token() -> None:
    with pytest.raises(ConfigError, match=r"objective\.longest is 0; expected at least 1"):
        QuestionAnsweringConfig(longest=0)
