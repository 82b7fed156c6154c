"""GELU and its derivative in Triton, for bfloat16: each reads its inputs once and writes once.

    y = x Φ(x)        dx = dy (Φ(x) + x φ(x))        φ(x) = exp(−x²/2) / √2π

Φ(x) = 1 − ½ erfc(x/√2) for x ≥ 0, ½ erfc(−x/√2) below. An erf that is exact to the last bits of float32 takes longer than reading
and writing the numbers. For bfloat16 that precision is wasted: a Chebyshev fit of erfc (Press et al., Numerical Recipes, §6.2),
with a relative error of at most 1.2e-7, is far below its rounding.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048  # numbers per program

_LOG2_E = math.log2(math.e)
# erfc(z) ≈ t exp(−z² + Σ c_i tⁱ), t = 1 / (1 + z/2), z ≥ 0; here with z = |x|/√2, and powers of 2 instead of e.
_C9, _C8, _C7, _C6, _C5, _C4, _C3, _C2, _C1, _C0 = (
    tl.constexpr(c * _LOG2_E)
    for c in (
        0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807,
        -0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223,
    )
)  # fmt: skip
_HALF_ROOT_HALF, _HALF_LOG2_E = tl.constexpr(0.5 * math.sqrt(0.5)), tl.constexpr(0.5 * _LOG2_E)
_DENSITY_AT_0 = tl.constexpr((2.0 * math.pi) ** -0.5)


def gelu_forward(x: Tensor) -> Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    with torch.cuda.device_of(x):
        _value_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK=BLOCK)
    return y


def gelu_backward(dy: Tensor, x: Tensor) -> Tensor:
    dy, x = dy.contiguous(), x.contiguous()
    dx = torch.empty_like(x)
    with torch.cuda.device_of(x):
        _slope_kernel[(triton.cdiv(x.numel(), BLOCK),)](dy, x, dx, x.numel(), BLOCK=BLOCK)
    return dx


@triton.jit
def _distribution(x, power):
    """Φ(x); power = −x²/2 · log₂ e."""
    root = tl.rsqrt(1.0 + _HALF_ROOT_HALF * tl.abs(x))
    t = root * root  # a division takes longer
    e = ((((((((_C9 * t + _C8) * t + _C7) * t + _C6) * t + _C5) * t + _C4) * t + _C3) * t + _C2) * t + _C1) * t + _C0
    half_erfc = 0.5 * t * tl.exp2(e + power)
    return tl.where(x >= 0, 1.0 - half_erfc, half_erfc)


@triton.jit
def _value_kernel(x_N, y_N, N, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_N + place, place < N, 0.0).to(tl.float32)
    y = x * _distribution(x, -_HALF_LOG2_E * x * x)
    tl.store(y_N + place, y.to(y_N.dtype.element_ty), place < N)


@triton.jit
def _slope_kernel(dy_N, x_N, dx_N, N, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_N + place, place < N, 0.0).to(tl.float32)
    dy = tl.load(dy_N + place, place < N, 0.0).to(tl.float32)
    power = -_HALF_LOG2_E * x * x
    dx = dy * (_distribution(x, power) + x * (_DENSITY_AT_0 * tl.exp2(power)))
    tl.store(dx_N + place, dx.to(dx_N.dtype.element_ty), place < N)


gelu: Any = torch.library.custom_op("firth::gelu", gelu_forward, mutates_args=())
_backward: Any = torch.library.custom_op("firth::gelu_backward", gelu_backward, mutates_args=())
gelu.register_fake(lambda x: torch.empty_like(x, memory_format=torch.contiguous_format))
_backward.register_fake(lambda dy, x: torch.empty_like(x, memory_format=torch.contiguous_format))
gelu.register_autograd(
    lambda ctx, dy: _backward(dy, *ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)
