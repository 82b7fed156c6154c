"""The place of the largest number in each row; of several that are equally large, the first, on every device."""

from __future__ import annotations

from importlib.util import find_spec

from torch import Tensor

_TRITON = find_spec("triton") is not None


def argmax(x_RV: Tensor) -> Tensor:
    """place_R. On a GPU, torch divides a single row among blocks that wait for each other, which takes three times as long."""
    if x_RV.is_cuda and _TRITON and x_RV.dtype.itemsize <= 4:
        from firth.layers.kernels.triton.argmax import argmax as kernel

        return kernel(x_RV)
    return x_RV.argmax(-1)
