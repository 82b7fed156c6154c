"""Recorded steps give what the model gives, on a GPU; elsewhere nothing is recorded."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_fixed_state import RECURRENT, TRANSFORMERS, V, model_of, name

from firth.decoding.captured import captured, room_for
from firth.decoding.generate import generate
from firth.decoding.sample import DecodingConfig

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_room_grows_by_powers_of_two_up_to_the_context() -> None:
    assert [room_for(n) for n in (1, 256, 257, 1000)] == [256, 256, 512, 1024]
    assert [room_for(n, 300) for n in (1, 257, 300)] == [256, 300, 300]


def test_on_a_cpu_the_model_steps_itself() -> None:
    model = model_of({"position": "rotary"})
    token_21 = torch.tensor([[1], [2]])
    got, _ = captured(model).step(token_21, model.start(2))
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
    config = DecodingConfig(tokens=70, temperature=temperature, top_k=5, repetition_penalty=1.1, seed=3)
    expected = torch.stack(list(generate(model, prompt_BT, config)))
    found = torch.stack(list(generate(model.cuda(), prompt_BT.cuda(), config)))
    assert captured(model)._recorded
    assert torch.equal(found.cpu(), expected)


@GPU
@pytest.mark.gpu
@torch.inference_mode()
def test_rows_are_reordered_between_recorded_steps() -> None:
    model = model_of({"position": "rotary"}).cuda()
    text_3T = torch.randint(V, (3, 12), generator=torch.Generator().manual_seed(0)).cuda()
    steps, rows = captured(model), torch.tensor([2, 0, 0], device="cuda")
    _, state = model.step(text_3T[:, :5], model.start(3))
    fixed = steps.fixed(state, 24)
    for n in range(5, 12):
        fixed, text_3T = fixed.select(rows), torch.cat((text_3T[rows][:, :n], text_3T[:, n:]), 1)
        logits_31V, fixed = steps.step(text_3T[:, n : n + 1], fixed)
        expected = model.step(text_3T[:, : n + 1], model.start(3))[0][:, -1:]
        torch.testing.assert_close(logits_31V, expected, rtol=1e-9, atol=1e-9)
    assert len(steps._recorded) == 1
