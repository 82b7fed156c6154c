"""Recorded steps give what the model gives, on a GPU; elsewhere nothing is recorded."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_fixed_state import RECURRENT, TRANSFORMERS, V, model_of, name
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.decoding.engine import row_views
from firth.decoding.engine.captured_prompts import CapturedPrompts
from firth.decoding.engine.slots import Slots
from firth.decoding.generate import generate
from firth.decoding.graphs.captured import Captured, lend, padded_step, padded_width, room_for

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_room_grows_by_powers_of_two_up_to_the_context() -> None:
    assert [room_for(n) for n in (1, 256, 257, 1000)] == [256, 256, 512, 1024]
    assert [room_for(n, 300) for n in (1, 257, 300)] == [256, 300, 300]


class Borrower:
    """Somebody who writes a text."""


def test_a_step_is_padded_to_a_power_of_two() -> None:
    assert [padded_width(n) for n in (1, 2, 3, 4, 5, 33, 64)] == [1, 2, 4, 4, 8, 64, 64]


@pytest.mark.parametrize("settings", [one for one in TRANSFORMERS if "attention" not in one], ids=name)
@torch.inference_mode()
def test_padding_leaves_no_trace(settings: dict[str, Any]) -> None:
    """In float64: the logits of a padded step, and those of the steps after it, are the model's."""
    model = model_of(settings)
    text_2T = torch.randint(V, (2, 14), generator=torch.Generator().manual_seed(0))
    expected_2TV = model.step(text_2T, model.start(2))[0]
    steps = Captured(model)
    assert steps.can_start
    state = steps.start(2, 32)
    for every, begin, end in ((False, 0, 5), (True, 5, 11), (False, 11, 14)):
        token_2W = torch.full((2, padded_width(end - begin)), V - 1)
        token_2W[:, : end - begin] = text_2T[:, begin:end]
        got, state = padded_step(model, token_2W, torch.tensor([end - begin] * 2), state, every)
        expected = expected_2TV[:, begin:end] if every else expected_2TV[:, end - 1 : end]
        torch.testing.assert_close(got[:, : expected.shape[1]], expected, rtol=1e-9, atol=1e-9)
    assert state.length_B.tolist() == [14, 14]


@torch.inference_mode()
def test_rows_are_padded_each_for_itself() -> None:
    model = model_of({"position": "rotary"})
    text_2T = torch.randint(V, (2, 8), generator=torch.Generator().manual_seed(0))
    got_21V, state = padded_step(model, text_2T, torch.tensor([3, 7]), Captured(model).start(2, 16), False)
    for row, count in enumerate((3, 7)):
        expected_V = model.step(text_2T[row : row + 1, :count], model.start(1))[0][0, -1]
        torch.testing.assert_close(got_21V[row, 0], expected_V, rtol=1e-9, atol=1e-9)
    assert state.length_B.tolist() == [3, 7]


@torch.inference_mode()
def test_short_prompts_go_to_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The padding of the batch and of each prompt, without the recording."""

    def not_recorded(self: Captured, token_RW: Tensor, count_R: Tensor, capacity: int) -> Any:
        assert tuple(token_RW.shape) == (4, 16)
        return padded_step(self.model, token_RW, count_R, self.start(len(token_RW), capacity), False)  # type: ignore[arg-type]

    monkeypatch.setattr(Captured, "read_padded", not_recorded)
    model = model_of({"position": "rotary"})
    texts = [torch.randint(V, (n,), generator=torch.Generator().manual_seed(n)).tolist() for n in (3, 9, 5)]
    slots = Slots(model, 5, 20)
    rows = row_views.several(slots.state, 0, [0, 0, 0])
    logits_3V = CapturedPrompts(model, 5, 20).read(texts, rows)
    rows.length_B.copy_(torch.tensor([len(text) for text in texts]))
    next_3V = slots.step(torch.tensor([[1], [2], [3]]), 3)
    for n, text in enumerate(texts):
        expected_TV = model.step(torch.tensor([[*text, n + 1]]), model.start(1))[0][0]
        torch.testing.assert_close(logits_3V[n], expected_TV[-2], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(next_3V[n], expected_TV[-1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("settings", [one for one in TRANSFORMERS if "attention" in one] + RECURRENT, ids=name)
def test_a_state_that_cannot_forget_is_never_padded(settings: dict[str, Any]) -> None:
    assert not Captured(model_of(settings)).can_start


def test_texts_that_are_written_at_the_same_time_do_not_share_their_memory() -> None:
    model: Any = model_of({"position": "rotary"})
    first, second = Borrower(), Borrower()
    one, other = lend(model, first), lend(model, second)
    assert one is not other
    del first
    third = Borrower()
    assert lend(model, third) is one
    del third
    model.embedding.weight = torch.nn.Parameter(model.embedding.weight.detach().clone())
    fourth = Borrower()
    assert lend(model, fourth) is not one  # its graphs would read the old weights


def test_on_a_cpu_the_model_steps_itself() -> None:
    model = model_of({"position": "rotary"})
    token_21 = torch.tensor([[1], [2]])
    got, _ = Captured(model).step(token_21, model.start(2))
    with torch.inference_mode():
        assert torch.equal(got, model.step(token_21, model.start(2))[0])


@GPU
@pytest.mark.gpu
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("settings", TRANSFORMERS + RECURRENT, ids=name)
def test_the_text_is_that_of_the_cpu(settings: dict[str, Any], temperature: float) -> None:
    """Past the end of the context (32), with rows that differ, in float64 wherever a kernel can."""
    model = model_of(settings)
    prompt_BT = torch.randint(V, (3, 5), generator=torch.Generator().manual_seed(0))
    for penalty in (1.1, 1.0):  # moving the model back and forth leaves graphs behind that must not be used any more
        config = DecodingConfig(tokens=70, temperature=temperature, top_k=5, repetition_penalty=penalty, seed=3)
        expected = torch.stack(list(generate(model.cpu(), prompt_BT, config)))
        for _ in range(4):  # the first times, prompts are read and tokens drawn without a graph
            text = torch.stack(list(generate(model.cuda(), prompt_BT.cuda(), config)))
            assert torch.equal(text.cpu(), expected)
    borrower = Borrower()
    steps = lend(model, borrower)
    assert {shape for _, shape, _, _ in steps._steps} == (
        {1, 8, 16} if steps.can_start else {1}
    )  # a full context is read again from its later half, 16 tokens
    assert bool(steps._picks) == (temperature > 0)


@GPU
@pytest.mark.gpu
@pytest.mark.parametrize("settings", [{"position": "learned"}, {"kind": "lstm"}], ids=name)
def test_two_texts_written_in_turns_are_those_written_alone(settings: dict[str, Any]) -> None:
    model = model_of(settings).cuda()
    prompts = [torch.randint(V, (1, 5), generator=torch.Generator().manual_seed(n)).cuda() for n in range(2)]
    config = DecodingConfig(tokens=60, temperature=0)
    alone = [torch.stack(list(generate(model, prompt_1T, config))) for prompt_1T in prompts]
    both = list(zip(*(generate(model, prompt_1T, config) for prompt_1T in prompts), strict=True))
    for n, text_N1 in enumerate(alone):
        assert torch.equal(torch.stack([tokens[n] for tokens in both]), text_N1)


@GPU
@pytest.mark.gpu
@torch.inference_mode()
def test_rows_are_reordered_between_recorded_steps() -> None:
    model = model_of({"position": "rotary"}).cuda()
    text_3T = torch.randint(V, (3, 12), generator=torch.Generator().manual_seed(0)).cuda()
    steps, rows = Captured(model), torch.tensor([2, 0, 0], device="cuda")
    _, state = model.step(text_3T[:, :5], model.start(3))
    fixed = steps.fixed(state, 24)
    for n in range(5, 12):
        fixed, text_3T = fixed.select(rows), torch.cat((text_3T[rows][:, :n], text_3T[:, n:]), 1)
        logits_31V, fixed = steps.step(text_3T[:, n : n + 1], fixed)
        expected = model.step(text_3T[:, : n + 1], model.start(3))[0][:, -1:]
        torch.testing.assert_close(logits_31V, expected, rtol=1e-9, atol=1e-9)
    assert len(steps._steps) == 1
