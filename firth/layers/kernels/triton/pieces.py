"""Shared by the kernels of a decoding step."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import torch
from torch import Tensor

from firth.layers.kernels.triton.lazy import jit, tl


def starts_early(x: Tensor) -> bool:
    """True if a kernel may start before the one before it has finished (programmatic dependent launch: from Hopper on). Every
    such kernel waits before it reads or writes what others write."""
    if not x.is_cuda or torch.compiler.is_compiling():
        return False
    return torch.cuda.get_device_capability(x.device) >= (9, 0)


@jit
def moments(x_at, K, eps, KP: tl.constexpr, NORM: tl.constexpr):
    """μ and r of the norm."""
    all_P = tl.arange(0, KP)
    x_P = tl.load(x_at + all_P, mask=all_P < K, other=0.0).to(tl.float32)
    mean = 0.0
    if NORM == "layer":
        mean = tl.sum(x_P, 0) / K
        x_P = tl.where(all_P < K, x_P - mean, 0.0)
    return mean, 1.0 / tl.sqrt(tl.sum(x_P * x_P, 0) / K + tl.cast(eps, tl.float32))


@jit
def activated(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    elif ACTIVATION == "gelu" or ACTIVATION == "geglu":  # noqa: PLR1714  # Triton knows no `in`
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif ACTIVATION == "gelu_tanh" or ACTIVATION == "geglu_tanh":  # noqa: PLR1714
        x = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))  # ½(1 + tanh z) = σ(2z)
    elif ACTIVATION == "silu" or ACTIVATION == "swiglu":  # noqa: PLR1714
        x = x * tl.sigmoid(x)
    return x
