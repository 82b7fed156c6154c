"""Both ends of an answer: inside the context alone, whatever stands behind a row, from an encoder that hears of segments."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from firth.models import RecurrentEncoderConfig, TransformerEncoderConfig
from firth.models.initialise import initialise
from firth.models.question_answering import QuestionAnswerer, question_answerer

V = 11
CONFIGS: dict[str, Any] = {
    "transformer": TransformerEncoderConfig(kind="transformer", width=8, depth=2, heads=2, context=16),
    "segments": TransformerEncoderConfig(kind="transformer", width=8, depth=1, heads=2, context=16, segments=2),
    "gru": RecurrentEncoderConfig(kind="gru", width=6),
}


def model_of(name: str) -> QuestionAnswerer:
    model = question_answerer(CONFIGS[name], V)
    assert isinstance(model, QuestionAnswerer)
    initialise(model, torch.Generator().manual_seed(0))
    return model.double().eval()


def rows() -> tuple[Tensor, Tensor, Tensor]:
    token_BT = torch.randint(1, V, (2, 9), generator=torch.Generator().manual_seed(1))
    return token_BT, torch.tensor([9, 6]), torch.tensor([3, 2])


@pytest.mark.parametrize("name", CONFIGS)
def test_both_ends_are_in_the_context(name: str) -> None:
    start_BT, end_BT = model_of(name)(*rows())
    for logits_BT in (start_BT, end_BT):
        assert logits_BT.isfinite().int().tolist() == [[0, 0, 0, 1, 1, 1, 1, 1, 0], [0, 0, 1, 1, 1, 0, 0, 0, 0]]
    assert not torch.equal(start_BT, end_BT)


@pytest.mark.parametrize("name", CONFIGS)
def test_what_stands_behind_a_row_changes_nothing(name: str) -> None:
    model = model_of(name)
    token_BT, length_B, first_B = rows()
    alone = model(token_BT[1:, :6], length_B[1:], first_B[1:])
    for together, by_itself in zip(model(token_BT, length_B, first_B), alone, strict=True):
        torch.testing.assert_close(together[1:, :6], by_itself, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_question_is_read(name: str) -> None:
    model = model_of(name)
    token_BT, length_B, first_B = rows()
    other_BT = token_BT.clone()
    other_BT[:, 0] = (token_BT[:, 0] + 1) % V
    assert not torch.allclose(model(token_BT, length_B, first_B)[0], model(other_BT, length_B, first_B)[0])


def test_segments_tell_question_and_context_apart() -> None:
    """The logits of the tokens that are in both contexts differ only where it is told where the context begins."""
    token_BT, length_B, first_B = rows()
    for name, differs in (("segments", True), ("transformer", False)):
        one, other = (model_of(name)(token_BT, length_B, begin_B)[0][:, 4] for begin_B in (first_B, first_B - 1))
        assert (not torch.allclose(one, other)) == differs
    model = model_of("segments")
    segment_BT = (torch.arange(9) >= first_B[:, None]).long()
    x_BTd = model.encoder(token_BT, length_B, segment_BT)
    expected_BT = (x_BTd @ model.output.weight[0] + model.output.bias[0])[:, 4]
    torch.testing.assert_close(model(token_BT, length_B, first_B)[0][:, 4], expected_BT)
