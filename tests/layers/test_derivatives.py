"""The two derivatives written by hand, against torch's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from firth.layers.norm import RMSNorm
from firth.layers.position import Rotary, rotate


def _double(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 4, 7)])
def test_rmsnorm_on_a_cpu_has_torchs_value_and_gradients(shape: tuple[int, ...]) -> None:
    x, layer = _double(*shape), RMSNorm(7, eps=1e-5).double()
    layer.weight.data.copy_(_double(7, seed=1))
    weight = torch.linspace(-1, 2, x.numel(), dtype=torch.float64).view(shape)
    expected = F.rms_norm(x, (7,), layer.weight, 1e-5)
    expected_gradients = torch.autograd.grad((expected * weight).sum(), (x, layer.weight))
    found = layer(x)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    gradients = torch.autograd.grad((found * weight).sum(), (x, layer.weight))
    torch.testing.assert_close(gradients, expected_gradients, rtol=1e-12, atol=1e-14)


def test_a_second_derivative_of_rmsnorm_is_refused_rather_than_wrong() -> None:
    x = _double(2, 5)
    (dx,) = torch.autograd.grad(RMSNorm(5, eps=1e-5).double()(x).pow(2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dx.sum().backward()


def test_the_gradient_of_a_rotation_is_autograds_own() -> None:
    x_BHTD = _double(2, 3, 5, 8)
    turn = Rotary(16, 8, 10_000.0).double().at(3, 5)
    cos_TD, sin_TD = turn
    left, right = x_BHTD.chunk(2, dim=-1)
    expected = x_BHTD * cos_TD + torch.cat((right, left), dim=-1) * sin_TD
    weight = torch.linspace(-1, 2, x_BHTD.numel(), dtype=torch.float64).view_as(x_BHTD)
    found = rotate(x_BHTD, turn)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    (dx,) = torch.autograd.grad((found * weight).sum(), x_BHTD)
    (expected_dx,) = torch.autograd.grad((expected * weight).sum(), x_BHTD)
    torch.testing.assert_close(dx, expected_dx, rtol=1e-12, atol=1e-14)


def test_a_rotation_can_be_differentiated_twice() -> None:
    turn = Rotary(16, 4, 10_000.0).double().at(0, 3)
    assert torch.autograd.gradgradcheck(lambda x: rotate(x, turn).pow(3), (_double(1, 1, 3, 4),))
