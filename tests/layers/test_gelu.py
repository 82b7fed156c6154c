"""GELU by the fit: as accurate as its numbers can be, and used only where it saves something."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from firth.layers.gelu import FittedGELU, gelu, normal_distribution


def exact_distribution(x: Tensor) -> Tensor:
    return 0.5 * torch.erfc(-x.double() * math.sqrt(0.5))


def test_the_fit_of_the_normal_distribution_has_its_published_accuracy() -> None:
    x = torch.linspace(-12, 12, 100_001, dtype=torch.float64)
    exact = exact_distribution(x)
    assert ((normal_distribution(x) - exact) / exact).abs().max() < 1.2e-7


def test_in_bfloat16_value_and_slope_are_right_to_the_last_bit_but_one() -> None:
    x = torch.cat((torch.linspace(-9, 9, 5001), torch.tensor([0.0, -0.0]))).bfloat16().requires_grad_()
    y: Tensor = FittedGELU.apply(x)  # type: ignore[no-untyped-call]
    (slope,) = torch.autograd.grad(y.sum(), x)
    z = x.detach().double().requires_grad_()
    true = F.gelu(z)
    (true_slope,) = torch.autograd.grad(true.sum(), z)
    eps = torch.finfo(torch.bfloat16).eps
    value = x.detach().double() * exact_distribution(x.detach())  # F.gelu itself is inexact far below zero
    assert ((y.detach() - value).abs() <= eps * value.abs()).all()
    assert ((slope - true_slope).abs() <= eps * true_slope.abs() + 1e-7).all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_shows(bad: float) -> None:
    y: Tensor = FittedGELU.apply(torch.tensor([bad, 1.0]).bfloat16())  # type: ignore[no-untyped-call]
    assert y.isfinite().tolist() == [False, True]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it imports its compiler
def test_compiled_it_is_one_graph_with_the_same_slope() -> None:
    def run(x: Tensor) -> Tensor:
        y: Tensor = FittedGELU.apply(x * 2)  # type: ignore[no-untyped-call]
        return y.float().square().sum()

    x = torch.linspace(-4, 4, 50).bfloat16().requires_grad_()
    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(torch.autograd.grad(compiled(x), x), torch.autograd.grad(run(x), x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_elsewhere_it_is_torchs(dtype: torch.dtype) -> None:
    x = torch.linspace(-4, 4, 50).to(dtype)
    assert torch.equal(gelu(x), F.gelu(x))
