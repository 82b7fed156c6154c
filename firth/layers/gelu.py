"""GELU: x Φ(x), Φ the standard normal distribution function (Hendrycks & Gimpel 2016).

Φ(x) = 1 − ½ erfc(x/√2) for x ≥ 0, ½ erfc(−x/√2) below. torch's erf is exact to the last bits of float32, and on a GPU takes
longer than reading and writing the tensor. For bfloat16 that precision is wasted: a Chebyshev fit of erfc (Press et al.,
Numerical Recipes, §6.2), with a relative error of at most 1.2e-7, is far below its rounding.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# erfc(z) ≈ t exp(−z² + Σ c_i tⁱ), t = 1 / (1 + z/2), z ≥ 0; highest power first.
_FIT = (
    0.17087277,
    -0.82215223,
    1.48851587,
    -1.13520398,
    0.27886807,
    -0.18628806,
    0.09678418,
    0.37409196,
    1.00002368,
    -1.26551223,
)


def gelu(x: Tensor) -> Tensor:
    if x.dtype == torch.bfloat16 and x.is_cuda and torch.compiler.is_compiling():
        y: Tensor = FittedGELU.apply(x)  # type: ignore[no-untyped-call]
        return y
    return F.gelu(x)


def normal_distribution(x: Tensor) -> Tensor:
    """Φ(x) by the fit, for a float32 or float64 x."""
    z = x.abs() * math.sqrt(0.5)
    t = 1.0 / (1.0 + 0.5 * z)
    exponent = torch.full_like(t, _FIT[0])
    for c in _FIT[1:]:
        exponent = exponent * t + c
    half_erfc = 0.5 * t * torch.exp(exponent - z * z)
    return torch.where(x >= 0, 1.0 - half_erfc, half_erfc)


class FittedGELU(torch.autograd.Function):
    """dy/dx = Φ(x) + x φ(x), φ(x) = exp(−x²/2) / √2π."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        wide = x.float()
        return (wide * normal_distribution(wide)).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *dy: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        wide = x.float()
        density = torch.exp(-0.5 * wide * wide) * (2.0 * math.pi) ** -0.5
        dx: Tensor = (dy[0].float() * (normal_distribution(wide) + wide * density)).to(x.dtype)
        return dx
