"""The precision of float32 matrix products."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def tensor_cores(enabled: bool = True) -> Iterator[None]:
    """A context in which NVIDIA GPUs from Ampere on round factors to TF32, with ten mantissa bits; sums stay float32."""
    before = torch.get_float32_matmul_precision()
    if enabled:
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        if enabled:
            torch.set_float32_matmul_precision(before)
