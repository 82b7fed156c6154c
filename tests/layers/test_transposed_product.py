"""The product for a few rows: the same numbers as F.linear, in the same order in memory."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from firth.layers.hook_free import Linear
from firth.layers.kernels import transposed_product
from firth.layers.kernels.cpu import team

WIDE = (1024, 512)  # large enough for the transposed product
EPS = torch.finfo(torch.float32).eps


@pytest.mark.parametrize("shape", [(16, 1), (2, 8), (64,), (1,), (65,), (8, 0)])
@pytest.mark.parametrize("bias", [True, False])
def test_the_product_is_that_of_linear(shape: tuple[int, ...], bias: bool) -> None:
    g = torch.Generator().manual_seed(0)
    x, w, b = torch.randn(*shape, WIDE[1], generator=g), torch.randn(WIDE, generator=g), torch.randn(WIDE[0], generator=g)
    exact = F.linear(x.double(), w.double(), b.double() if bias else None)
    with torch.inference_mode():
        y = transposed_product.linear(x, w, b if bias else None)
    bound = EPS * WIDE[1] * F.linear(x.abs(), w.abs(), b.abs())  # of any order of summation
    assert y.is_contiguous()
    assert y.shape == exact.shape
    assert bool(((y - exact).abs() <= bound).all())


@pytest.mark.skipif(team.why_not() is not None, reason=str(team.why_not()))
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("outputs", [8192, 8195])  # not a multiple of the rows that are read side by side
def test_one_row_times_a_large_matrix_is_that_of_linear(outputs: int, bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    g = torch.Generator().manual_seed(0)
    x, w, b = torch.randn(1, 1, 512, generator=g), torch.randn(outputs, 512, generator=g), torch.randn(outputs, generator=g)
    exact = F.linear(x.double(), w.double(), b.double() if bias else None)
    monkeypatch.setattr(F, "linear", None)  # MKL's product, not to be called
    with torch.inference_mode():
        y = transposed_product.linear(x, w, b if bias else None)
    assert y.shape == exact.shape
    torch.testing.assert_close(y.double(), exact, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize(("width", "step"), [(520, 1), (512, 2)])
def test_one_row_that_the_kernel_does_not_know(width: int, step: int) -> None:
    """A width that is no multiple of the lanes, and a matrix that is not contiguous."""
    x, w = torch.randn(1, width), torch.randn(16384, width)[::step]
    with torch.inference_mode():
        assert torch.equal(transposed_product.linear(x, w), F.linear(x, w))


def test_a_step_of_fifty_texts_multiplies_the_matrix_by_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[torch.Size] = []
    inner = torch.addmm
    monkeypatch.setattr(torch, "addmm", lambda b, w, x: calls.append(x.shape) or inner(b, w, x))
    layer = Linear(WIDE[1], WIDE[0])
    with torch.inference_mode():
        layer(torch.ones(50, 1, WIDE[1]))
        layer(torch.ones(1, 1, WIDE[1]))
    assert calls == [(WIDE[1], 50)]


def test_training_multiplies_as_before_to_the_bit() -> None:
    layer, x = Linear(WIDE[1], WIDE[0]), torch.randn(16, WIDE[1])
    assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))
    assert layer(x).requires_grad
