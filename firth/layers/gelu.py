"""GELU: x Φ(x), Φ the standard normal distribution function (Hendrycks & Gimpel 2016)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def gelu(x: Tensor) -> Tensor:
    """In a compiled model on a GPU, bfloat16 has kernels of its own: torch's compiler would write the slope to memory in float32
    in the forward pass, where it costs more than computing it again in the backward pass."""
    if x.dtype == torch.bfloat16 and x.is_cuda and torch.compiler.is_compiling():
        from firth.layers.kernels.triton.gelu import gelu as kernel

        y: Tensor = kernel(x)
        return y
    return F.gelu(x)
