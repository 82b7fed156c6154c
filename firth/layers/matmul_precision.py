"""How exactly products of float32 matrices are computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def tensor_cores(wanted: bool = True) -> Iterator[None]:
    """Within, on NVIDIA's GPUs from Ampere on, factors are rounded to TF32, ten bits after the leading one; sums are float32."""
    before = torch.get_float32_matmul_precision()
    if wanted:
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        if wanted:
            torch.set_float32_matmul_precision(before)
