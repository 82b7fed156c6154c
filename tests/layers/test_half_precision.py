"""The buffers of recurrent layers in half precision, without a GPU: torch's layers on the CPU stand in for cuDNN, everything
around them is the real thing. On a GPU, test_recurrent_gpu.py tests both."""

from __future__ import annotations

from math import isfinite
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from firth.layers.kernels import half_precision
from firth.layers.recurrent import Recurrent
from firth.layers.recurrent.torch_cell import TorchCell
from firth.layers.state import RecurrentState

KINDS = {1: nn.RNN, 2: nn.LSTM, 3: nn.GRU}


class StandIn:
    """A stand-in for cuDNN: float16 numbers in float32 arithmetic, in buffers whose widths are multiples of 8."""

    def flatten(self, weights: list[Tensor], *options: Any) -> Tensor:
        return torch.zeros(1)

    def forward(self, x: Tensor, weights: Any, stride: int, memory: Tensor, h: Tensor, c: Tensor | None, *options: Any) -> Any:
        mode, width, *_, bidirectional, _, _ = options
        assert x.dtype == torch.float16
        assert x.shape[2] % 8 == width % 8 == 0
        layer = KINDS[mode](x.shape[2], width, bidirectional=bidirectional)
        given = [tensor.detach().float().requires_grad_() for tensor in (x, h, *(() if c is None else (c,)), *weights)]
        own, parts = given[2 + (c is not None) :], given[1 : 2 + (c is not None)]
        names = [name for name, _ in layer.named_parameters()]
        hidden = parts[0] if c is None else tuple(parts)
        with torch.enable_grad():
            y, last = torch.func.functional_call(layer, dict(zip(names, own, strict=True)), (given[0], hidden))
        last = (last,) if c is None else last
        self.kept = given, [y, *last]
        empty = [] if c is not None else [torch.zeros(0)]
        return *(tensor.detach().half() for tensor in (y, *last)), *empty, torch.zeros(1), memory

    def backward(self, *arguments: Any) -> Any:
        dy, dh, dc = arguments[7:10]
        largest = float(torch.stack([part.abs().max() for part in (dy, dh)]).max())
        assert not isfinite(largest) or 2**-4 <= largest <= 2**-2, "the gradients are not scaled"
        given, outputs = self.kept
        gradients = [part.float() for part in (dy, dh, dc) if part is not None]
        dx, dh, *rest = torch.autograd.grad(outputs, given, gradients)
        weights = rest[dc is not None :]
        return dx.half(), dh.half(), rest[0].half() if dc is not None else None, [weight.half() for weight in weights]


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    cudnn = StandIn()
    monkeypatch.setattr(torch, "_cudnn_rnn_flatten_weight", cudnn.flatten)
    monkeypatch.setattr(torch, "_cudnn_rnn", cudnn.forward)
    monkeypatch.setattr(torch.ops.aten, "_cudnn_rnn_backward", cudnn.backward)
    monkeypatch.setattr(half_precision, "_EAGER", 1 << 30)  # nothing is recorded without a GPU


def passed(layer: Recurrent, x_BTi: Tensor, dtype: torch.dtype | None, share: float) -> list[Tensor]:
    """Output, last state, and all gradients of `share` times the loss; in such buffers if a type is given, else by torch."""
    x = x_BTi.clone().requires_grad_()
    first = [part.detach().requires_grad_() for part in layer.initial_state(len(x)).parts]
    cell: Any = layer.layers[0]
    if dtype is None:
        y, last = layer(x, RecurrentState(*first))
        parts = last.parts
    else:
        assert isinstance(cell, TorchCell)
        y, parts = half_precision.train(cell, x, tuple(first), cell.directions_weights(), dtype)
        assert y.dtype == dtype
    loss = y.float().square().sum() + sum(part.sum() for part in parts)
    return [y, *parts, *torch.autograd.grad(share * loss, [x, *first, *layer.parameters()])]


@pytest.mark.parametrize("share", [1.0, 1e-7, 1e5], ids=["one", "tiny", "large"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "both-ways"])
@pytest.mark.parametrize(("inputs", "width"), [(16, 24), (13, 21)])
@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_values_and_gradients_are_those_of_float32_whatever_their_size(
    kind: Any, inputs: int, width: int, bidirectional: bool, share: float
) -> None:
    """Float16 alone would make zeros of the tiny ones and infinities of the large ones."""
    torch.manual_seed(0)
    layer = Recurrent(kind, inputs, width, bidirectional=bidirectional)
    x_BTi = torch.randn(3, 9, inputs)
    low, expected = (passed(layer, x_BTi, dtype, share) for dtype in (torch.bfloat16, None))
    assert [one.shape for one in low] == [one.shape for one in expected]
    for ours, theirs in zip(low, expected, strict=True):
        assert (ours - theirs).norm() <= 0.01 * theirs.norm()


def test_the_scale_is_a_power_of_two_and_harmless_where_there_is_nothing_to_scale() -> None:
    power = half_precision._power
    assert float(power([torch.tensor([0.3, -5e-6]), torch.tensor([0.001])])) == half_precision._SCALED + 2
    assert float(power([torch.zeros(3)])) == 100.0
    assert float(power([torch.tensor([1e-44])])) == 100.0
    assert float(power([torch.tensor([float("inf")])])) == -100.0  # times that, still infinite
    assert torch.isnan(power([torch.tensor([1.0, float("nan")])]))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_gradient_that_is_no_number_is_not_hidden(value: float) -> None:
    layer = Recurrent("lstm", 5, 6)
    cell: Any = layer.layers[0]
    x_BTi, state = torch.randn(2, 4, 5, requires_grad=True), tuple(layer.initial_state(2).parts)
    y, _ = half_precision.train(cell, x_BTi, state, cell.directions_weights(), torch.bfloat16)
    dy = torch.ones_like(y)
    dy[0, 0, 0] = value
    assert not torch.isfinite(torch.autograd.grad(y, x_BTi, dy)[0]).all()


def test_buffers_are_lent_and_come_back() -> None:
    layer = Recurrent("gru", 5, 6)
    cell: Any = layer.layers[0]

    def read() -> Tensor:
        state = tuple(layer.initial_state(2).parts)
        return half_precision.train(cell, torch.randn(2, 4, 5), state, cell.directions_weights(), torch.bfloat16)[0]

    def lent() -> list[bool]:
        return [buffers.used for one in half_precision._buffers_of[cell].values() for buffers in one]

    first, second = read(), read()
    assert lent() == [True, True]
    first.float().sum().backward()  # type: ignore[no-untyped-call]
    assert lent() == [False, True]
    del second
    assert lent() == [False, False]
    read()
    assert len(lent()) == 2
    again = read()
    again.float().sum().backward(retain_graph=True)  # type: ignore[no-untyped-call]
    with pytest.raises(RuntimeError, match="asked for twice"):
        again.float().sum().backward()  # type: ignore[no-untyped-call]


def test_only_a_few_shapes_are_kept() -> None:
    layer = Recurrent("rnn", 5, 6)
    cell: Any = layer.layers[0]
    for length in range(1, 9):
        state = tuple(layer.initial_state(2).parts)
        half_precision.train(cell, torch.randn(2, length, 5), state, cell.directions_weights(), torch.bfloat16)
    assert [shape[1] for shape in half_precision._buffers_of[cell]] == [5, 6, 7, 8]
