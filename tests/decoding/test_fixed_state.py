"""States of fixed size: rows of different lengths, in one step, give the logits of each text alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from shares import half

from firth.decoding.engine import row_views
from firth.decoding.engine.slots import Slots
from firth.layers.recurrent import CELLS
from firth.models import LanguageModel, RecurrentConfig, TransformerConfig, language_model
from firth.models.initialise import initialise

V = 23
TRANSFORMERS: list[dict[str, Any]] = [
    *({"position": name} for name in ("none", "learned", "sinusoidal", "rotary", "alibi", "t5", "shaw", "disentangled")),
    {"position": "rotary", "kv_heads": 2},
    {"mask": "window", "span": 3},
    {"mask": "strictly_causal"},
    {"score": "additive", "position": "alibi"},
    {"score": "gaussian", "position": "rotary"},
    {"score_cap": 2.0},
    {"attention": "linear", "position": "none"},
    {"attention": "gated_linear", "position": "none"},
    {"attention": "based", "position": "none"},
]
RECURRENT = [{"kind": kind} for kind in CELLS.shipped_kinds]


def model_of(settings: dict[str, Any]) -> LanguageModel:
    if "kind" in settings:
        config: Any = RecurrentConfig(width=16, depth=2, **settings)
    else:
        config = TransformerConfig(kind="transformer", width=16, depth=2, heads=4, context=32, **settings)
    model = language_model(config, V).double()
    initialise(model, torch.Generator().manual_seed(0))
    for parameter in model.parameters():
        parameter.data.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    return model.eval()


def name(settings: dict[str, Any]) -> str:
    return "-".join(f"{value}" for value in settings.values())


@pytest.mark.parametrize("settings", half(TRANSFORMERS + RECURRENT), ids=name)
@torch.inference_mode()
def test_rows_of_different_lengths_step_together(settings: dict[str, Any]) -> None:
    model = model_of(settings)
    texts = [torch.randint(V, (1, 9 + 3 * row), generator=torch.Generator().manual_seed(row)) for row in range(3)]
    slots = Slots(model, 4, 24)
    for row, text in enumerate(texts):
        _, state = model.step(text[:, :-5], row_views.opened(model, slots.state, row, 0))
        row_views.close(slots.state, row, state)
    row_views.exchange(slots.state, [1], [2], 24)  # the second and third texts change places
    order = [0, 2, 1]
    for n in range(5, 0, -1):
        got_RV = slots.step(torch.cat([texts[text][:, -n, None] for text in order]), 3)
        for row, text in enumerate(order):
            end = texts[text].shape[1] - n + 1
            expected_V = model.step(texts[text][:, :end], model.start(1))[0][0, -1]
            torch.testing.assert_close(got_RV[row], expected_V, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("settings", [*TRANSFORMERS[:9], TRANSFORMERS[11]], ids=name)
@torch.inference_mode()
def test_a_row_goes_on_as_a_state_of_its_own(settings: dict[str, Any]) -> None:
    model = model_of(settings)
    text_1T = torch.randint(V, (1, 12), generator=torch.Generator().manual_seed(0))
    slots = Slots(model, 2, 20)
    _, state = model.step(text_1T[:, :9], row_views.opened(model, slots.state, 1, 0))
    row_views.close(slots.state, 1, state)
    got_1TV, grown = model.step(text_1T[:, 6:-1], row_views.opened(model, slots.state, 1, 6))
    expected_1TV, _ = model.step(text_1T, model.start(1))
    torch.testing.assert_close(got_1TV, expected_1TV[:, 6:-1], rtol=1e-9, atol=1e-9)
    row_views.close(slots.state, 1, grown)
    row_views.copy(slots.state, 1, 0, 11)
    torch.testing.assert_close(slots.step(text_1T[:, -1:], 1), expected_1TV[:, -1], rtol=1e-9, atol=1e-9)


@torch.inference_mode()
def test_cut_equals_a_state_that_never_saw_the_rest() -> None:
    model = model_of({"position": "rotary"})
    text_2T = torch.randint(V, (2, 10), generator=torch.Generator().manual_seed(0))
    _, state = model.step(text_2T, model.start(2))
    other_21 = torch.tensor([[1], [2]])
    got_21V, _ = model.step(other_21, state.cut(6))
    fixed_21V, _ = model.step(other_21, state.fixed(16).cut(6))
    expected_21V = model.step(torch.cat((text_2T[:, :6], other_21), 1), model.start(2))[0][:, -1:]
    torch.testing.assert_close(got_21V, expected_21V)
    torch.testing.assert_close(fixed_21V, expected_21V)


def test_a_text_longer_than_the_memory_is_refused() -> None:
    model = model_of({"position": "rotary"})
    _, state = model.step(torch.zeros(1, 8, dtype=torch.long), model.start(1))
    with pytest.raises(Exception, match="the text has 8 tokens, but there is memory for 7"):
        state.fixed(7)
