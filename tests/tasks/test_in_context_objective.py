"""The losses of learning in context: of the answers alone, and so that who always says 0 has 1."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from firth.models import TransformerConfig, language_model
from firth.models.initialise import initialise
from firth.models.point_regressor import point_regressor
from firth.tasks.in_context import in_context
from firth.tasks.in_context_regression import in_context_regression
from firth.text.datasets.in_context_tasks import LinearFunctions, Swaps

TINY = TransformerConfig(kind="transformer", width=8, depth=1, heads=2, context=64)


def test_it_is_the_mean_of_minus_log_p_of_the_answers_alone() -> None:
    swaps = Swaps(letters=4, word_length=3, examples=2)
    batch = swaps.draw("train", 5, np.random.default_rng(0)).batch()
    model = language_model(TINY, len(swaps.alphabet)).double()
    initialise(model, torch.Generator().manual_seed(0))
    token_BT, target_BT = torch.from_numpy(batch.token_BT), torch.from_numpy(batch.target_BT)
    loss, state = in_context(model, token_BT, target_BT)
    log_p_BTV = model(token_BT)[0].detach().log_softmax(-1)
    nats = []
    for row in range(5):
        for place in range(23):
            if place % 8 in (3, 4, 5):  # abc>bca; the places before b, c and a
                nats.append(-float(log_p_BTV[row, place, token_BT[row, place + 1] if place < 22 else target_BT[row, place]]))
    assert len(nats) == 5 * 3 * 3
    assert float(loss.detach()) == pytest.approx(sum(nats) / len(nats), rel=1e-10)
    assert state is None


class AlwaysZero(nn.Module):
    dimensions = 7

    def forward(self, x_BED: Tensor, y_BE: Tensor) -> Tensor:
        return torch.zeros_like(y_BE)


def test_who_always_says_0_has_a_loss_of_1_whatever_the_dimensions() -> None:
    batch = LinearFunctions(dimensions=7, noise=0.0, examples=3).draw("train", 20_000, np.random.default_rng(0)).batch()
    loss, _ = in_context_regression(AlwaysZero(), torch.from_numpy(batch.x_BED), torch.from_numpy(batch.y_BE))  # type: ignore[arg-type]
    assert float(loss) == pytest.approx(1.0, abs=0.03)


def test_it_is_the_mean_square_of_what_is_missed() -> None:
    batch = LinearFunctions(dimensions=2, noise=0.0, examples=3).draw("train", 4, np.random.default_rng(0)).batch()
    x_BED, y_BE = torch.from_numpy(batch.x_BED), torch.from_numpy(batch.y_BE)
    model = point_regressor(TINY, 2)
    initialise(model, torch.Generator().manual_seed(0))
    loss, state = in_context_regression(model, x_BED, y_BE)
    said_BE = model(x_BED, y_BE).detach()
    squares = [(float(said_BE[b, e]) - float(y_BE[b, e])) ** 2 for b in range(4) for e in range(4)]
    assert float(loss.detach()) == pytest.approx(sum(squares) / 16 / 2, rel=1e-5)
    assert state is None
