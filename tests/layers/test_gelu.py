"""GELU in bfloat16, by its kernels, on a GPU or in Triton's interpreter; elsewhere it is torch's."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from interpreter import INTERPRETED
from torch import Tensor

from firth.layers.gelu import gelu

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
kernels = [
    pytest.mark.skipif(not (INTERPRETED or torch.cuda.is_available()), reason="needs a CUDA device or TRITON_INTERPRET=1"),
    pytest.mark.usefixtures("triton_interpreter"),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_outside_a_compiled_model_it_is_torchs(dtype: torch.dtype) -> None:
    x = torch.linspace(-4, 4, 50).to(DEVICE, dtype)
    assert torch.equal(gelu(x), F.gelu(x))


class TestKernels:
    pytestmark = kernels

    def test_value_and_slope_are_right_to_the_last_bit_but_one(self) -> None:
        from firth.layers.kernels.triton.gelu import gelu_backward, gelu_forward

        x = torch.cat((torch.linspace(-9, 9, 5001), torch.tensor([0.0, -0.0]))).bfloat16().to(DEVICE)
        z = x.double().requires_grad_()
        value = x.double() * 0.5 * torch.erfc(-x.double() * math.sqrt(0.5))  # F.gelu itself is inexact far below zero
        (slope,) = torch.autograd.grad(F.gelu(z).sum(), z)
        eps = torch.finfo(torch.bfloat16).eps
        assert ((gelu_forward(x) - value).abs() <= eps * value.abs()).all()
        assert ((gelu_backward(torch.ones_like(x), x) - slope).abs() <= eps * slope.abs() + 1e-7).all()
        twice = gelu_backward(torch.full_like(x, 2.0), x)
        assert torch.equal(twice, 2 * gelu_backward(torch.ones_like(x), x))

    def test_in_float32_the_fit_is_as_good_as_it_says(self) -> None:
        from firth.layers.kernels.triton.gelu import gelu_forward

        x = torch.linspace(-9, 9, 20_001, device=DEVICE)
        exact = x.double() * 0.5 * torch.erfc(-x.double() * math.sqrt(0.5))
        assert ((gelu_forward(x) - exact).abs() <= 5e-5 * exact.abs()).all()  # 4e-5, and the exponent is rounded to float32

    @pytest.mark.parametrize("bad", [float("nan"), float("inf")])
    def test_what_is_not_finite_shows(self, bad: float) -> None:
        from firth.layers.kernels.triton.gelu import gelu_forward

        assert gelu_forward(torch.tensor([bad, 1.0], device=DEVICE).bfloat16()).isfinite().tolist() == [False, True]

    def test_rows_that_lie_apart_and_a_last_block_that_is_not_full(self) -> None:
        from firth.layers.kernels.triton.gelu import gelu_backward, gelu_forward

        x = torch.randn(70, 130, device=DEVICE).bfloat16()[:, :100]
        dy = torch.randn(100, 70, device=DEVICE).bfloat16().T
        assert torch.equal(gelu_forward(x), gelu_forward(x.contiguous()))
        assert torch.equal(gelu_backward(dy, x), gelu_backward(dy.contiguous(), x.contiguous()))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_compiled_it_is_one_graph_that_keeps_only_x_for_the_backward_pass() -> None:
    def run(x: Tensor) -> Tensor:
        return gelu(x * 2).float().square().sum()

    x = torch.randn(1000, 1000, device="cuda").bfloat16().requires_grad_()
    compiled = torch.compile(run, fullgraph=True)
    expected = torch.autograd.grad(F.gelu(x.double() * 2).square().sum(), x)[0]
    grad = torch.autograd.grad(compiled(x), x)[0]
    torch.testing.assert_close(grad, expected, rtol=0.03, atol=0.03)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    kept = compiled(x)
    assert torch.cuda.memory_allocated() - before <= 3 * x.numel() * x.element_size()  # a slope in float32 would be two more
    del kept
