"""The derivatives written by hand, against autograd's of the plain expression: first and second."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from firth.layers.activation import swiglu
from firth.layers.attention.config import AttentionConfig
from firth.layers.block_config import BlockConfig
from firth.layers.norm import RMSNorm
from firth.layers.position import Rotary, rotate
from firth.layers.self_attention import SelfAttention


def _double(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def assert_same_derivatives(ours: Callable[..., Tensor], plain: Callable[..., Tensor], *inputs: Tensor) -> None:
    """Value, gradient, and the gradient of the gradient."""
    results = []
    for function in (ours, plain):
        y = function(*inputs)
        weight = torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view_as(y)
        first = torch.autograd.grad((y * weight).sum(), inputs)  # the fast way: no graph of the backward pass
        y = function(*inputs)
        with_graph = torch.autograd.grad((y.sin() * weight).sum(), inputs, create_graph=True)
        second = torch.autograd.grad(sum(g.cos().sum() for g in with_graph), inputs)
        results.append((y.detach(), first, with_graph, second))
    torch.testing.assert_close(results[0], results[1], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 4, 7)])
def test_rmsnorm_on_a_cpu_has_torchs_derivatives(shape: tuple[int, ...]) -> None:
    layer = RMSNorm(7, eps=1e-5).double()

    def ours(x: Tensor, gain: Tensor) -> Tensor:
        return torch.func.functional_call(layer, {"weight": gain}, (x,))

    assert_same_derivatives(ours, lambda x, gain: F.rms_norm(x, (7,), gain, 1e-5), _double(*shape), _double(7, seed=1))


@pytest.mark.parametrize("shape", [(6,), (3, 8), (2, 3, 10)])
def test_swiglu_has_the_derivatives_of_its_formula(shape: tuple[int, ...]) -> None:
    def formula(x: Tensor) -> Tensor:
        gate, value = x.chunk(2, dim=-1)
        return gate * torch.sigmoid(gate) * value

    assert_same_derivatives(swiglu, formula, _double(*shape))


@pytest.mark.parametrize(("heads", "groups"), [(4, 4), (4, 2), (3, 1)])
def test_the_split_into_turned_heads_has_the_derivatives_of_its_parts(heads: int, groups: int) -> None:
    layer = SelfAttention(BlockConfig(width=heads * 6, attention=AttentionConfig(heads=heads, kv_heads=groups)))
    turn = Rotary(16, 6, 10_000.0).double().turn(3, 5)

    def together(qkv: Tensor) -> Tensor:
        return torch.cat([x.flatten() for x in layer.split(qkv, turn)])

    def apart(qkv: Tensor) -> Tensor:
        q, k, v = qkv.view(2, 5, heads + 2 * groups, 6).transpose(1, 2).split((heads, groups, groups), dim=1)
        return torch.cat([rotate(q, turn).flatten(), rotate(k, turn).flatten(), v.flatten()])

    assert_same_derivatives(together, apart, _double(2, 5, (heads + 2 * groups) * 6))


def test_rotating_into_a_tensor_is_rotating() -> None:
    turn = Rotary(16, 8, 10_000.0).double().turn(3, 5)
    x_BHTD = _double(2, 3, 5, 8).detach()
    out = torch.empty_like(x_BHTD)
    rotate(x_BHTD, turn, out=out)
    assert torch.equal(out, rotate(x_BHTD, turn))
