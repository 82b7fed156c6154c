"""Recurrent layers on a GPU: with dropped weights, where cuDNN wants the weights of a layer in one piece of memory, and in half
precision, where passes are recorded and replayed.

Warnings are errors here, and weights that lie anywhere else are worth one to torch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from firth.layers.kernels.half_precision import _buffers_of
from firth.layers.recurrent import Recurrent
from firth.layers.state import RecurrentState

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def run(layer: Recurrent, kernel: Any, x_BTi: Tensor, length_B: Tensor | None) -> list[Tensor]:
    """Output and every gradient, with the masks of seed 5."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        y_BTd, _ = layer(x_BTi, length_B=length_B, kernel=kernel)
    return [y_BTd, *torch.autograd.grad(y_BTd.square().sum(), list(layer.parameters()))]


@pytest.mark.parametrize("lengths", [None, (2, 9, 5)], ids=["whole", "lengths"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "both-ways"])
@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_the_fused_kernel_equals_the_cells_with_the_same_dropped_weights(
    kind: Any, bidirectional: bool, lengths: tuple[int, ...] | None
) -> None:
    layer = (
        Recurrent(kind, 12, 16, 2, dropout=0.3, dropout_weight=0.5, dropout_locked=True, bidirectional=bidirectional)
        .double()
        .cuda()
    )
    x_BTi = torch.randn(3, 9, 12, dtype=torch.float64, device="cuda")
    length_B = None if lengths is None else torch.tensor(lengths)
    for fused, cells in zip(*(run(layer, kernel, x_BTi, length_B) for kernel in ("fused", "cells")), strict=True):
        torch.testing.assert_close(fused, cells, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_dropped_weights_train_in_float32_and_under_autocast_without_a_warning(kind: Any) -> None:
    layer = Recurrent(kind, 12, 16, 2, dropout_weight=0.5).cuda()
    for dtype in (torch.float32, torch.bfloat16):
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            y_BTd, _ = layer(torch.randn(3, 9, 12, device="cuda"))
        y_BTd.float().sum().backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in layer.parameters())


def trained(layer: Recurrent, x_BTi: Tensor, state: RecurrentState | None = None) -> list[Tensor]:
    """Output, last state, and the gradients of the input, of the state and of all weights, in bfloat16."""
    x_BTi = x_BTi.clone().requires_grad_()
    state = state or layer.initial_state(len(x_BTi))
    parts = [part.detach().clone().requires_grad_() for part in state.parts]
    with torch.autocast("cuda", torch.bfloat16):
        y_BTd, last = layer(x_BTi, RecurrentState(*parts))
    loss = y_BTd.float().square().sum() + sum(part.float().sum() for part in last.parts)
    return [y_BTd, *last.parts, *torch.autograd.grad(loss, [x_BTi, *parts, *layer.parameters()])]


@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "both-ways"])
@pytest.mark.parametrize(("inputs", "width"), [(16, 24), (13, 21)])
@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_in_bfloat16_it_is_the_layer_of_float64_to_rounding(kind: Any, inputs: int, width: int, bidirectional: bool) -> None:
    torch.manual_seed(0)
    layer = Recurrent(kind, inputs, width, 2, bidirectional=bidirectional).cuda()
    for parameter in layer.parameters():
        parameter.data = parameter.data.bfloat16().float()
    x_BTi = torch.randn(3, 9, inputs, device="cuda").bfloat16().float()
    low = trained(layer, x_BTi)
    exact = copy.deepcopy(layer).double()
    x = x_BTi.double().requires_grad_()
    parts = [part.requires_grad_() for part in exact.initial_state(3).parts]
    y, last = exact(x, RecurrentState(*parts))
    loss = y.square().sum() + sum(part.sum() for part in last.parts)
    expected = [y, *last.parts, *torch.autograd.grad(loss, [x, *parts, *exact.parameters()])]
    assert low[0].dtype == torch.bfloat16
    assert [one.shape for one in low] == [one.shape for one in expected]
    for ours, theirs in zip(low, expected, strict=True):
        assert (ours.double() - theirs).norm() <= 0.02 * theirs.norm()


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_recorded_passes_repeat_the_first_ones_to_the_bit_whatever_came_between(kind: Any) -> None:
    torch.manual_seed(0)
    layer = Recurrent(kind, 13, 21, 2).cuda()
    x_BTi, other_BTi = torch.randn(2, 3, 9, 13, device="cuda")
    first = trained(layer, x_BTi)
    for _ in range(4):
        trained(layer, other_BTi)
    assert all(buffers._recorded is not None for cell in layer.layers for lent in _buffers_of[cell].values() for buffers in lent)
    for before, after in zip(first, trained(layer, x_BTi), strict=True):
        assert torch.equal(before, after)


def test_two_texts_may_be_read_before_either_is_gone_back_through() -> None:
    torch.manual_seed(0)
    layer = Recurrent("lstm", 13, 21).cuda()
    several = torch.randn(3, 2, 9, 13, device="cuda")
    for _ in range(5):
        trained(layer, several[0])
    alone = [trained(layer, x_BTi)[-1] for x_BTi in several]
    with torch.autocast("cuda", torch.bfloat16):
        read = [layer(x_BTi) for x_BTi in several]
    losses = [y_BTd.float().square().sum() + sum(part.float().sum() for part in last.parts) for y_BTd, last in read]
    last_weight = list(layer.parameters())[-1]
    together = [torch.autograd.grad(loss, last_weight)[0] for loss in reversed(losses)][::-1]
    for one, other in zip(alone, together, strict=True):
        assert torch.equal(one, other)


def test_a_text_that_nobody_goes_back_through_leaves_its_place_to_the_next() -> None:
    layer = Recurrent("gru", 16, 16).cuda()
    for _ in range(5):
        with torch.autocast("cuda", torch.bfloat16):
            layer(torch.randn(2, 9, 16, device="cuda"))
    assert [len(lent) for lent in _buffers_of[layer.layers[0]].values()] == [1]


def test_it_trains_with_its_new_weights_after_every_update() -> None:
    torch.manual_seed(0)
    layer = Recurrent("lstm", 16, 16).cuda()
    x_BTi = torch.randn(2, 9, 16, device="cuda")
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1, fused=True)
    losses = []
    for _ in range(8):
        with torch.autocast("cuda", torch.bfloat16):
            loss = (layer(x_BTi)[0].float() - 0.5).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
    assert losses == sorted(losses, reverse=True)
