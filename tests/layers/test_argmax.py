"""argmax against numpy's, whose answer is the first of several equal numbers, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from interpreter import INTERPRETED

from firth.layers.kernels.triton.argmax import argmax, by_triton

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")),
]
ROWS = [(1, 1), (1, 5), (3, 4096), (2, 4097), (64, 50_257)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(("rows", "columns"), ROWS)
def test_it_is_the_first_of_the_largest(rows: int, columns: int, dtype: torch.dtype, device: str) -> None:
    x_RV = torch.randn(rows, columns, generator=torch.Generator().manual_seed(columns)).mul(2).round().to(device, dtype)
    assert argmax(x_RV).tolist() == np.argmax(x_RV.cpu().double().numpy(), 1).tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_rows_may_lie_apart_and_hold_minus_infinity(device: str) -> None:
    x_RV = torch.randn(4, 3, 7, generator=torch.Generator().manual_seed(0)).to(device)[:, -1]
    x_RV[1] = -torch.inf
    x_RV[2, :6] = -torch.inf
    assert argmax(x_RV).tolist() == np.argmax(x_RV.cpu().numpy(), 1).tolist()


@pytest.mark.skipif(not INTERPRETED, reason="needs TRITON_INTERPRET=1")
@pytest.mark.usefixtures("triton_interpreter")
@pytest.mark.parametrize(("rows", "columns"), ROWS[:4])
def test_the_kernel_is_right_in_the_interpreter(rows: int, columns: int) -> None:
    x_RV = torch.randn(rows, columns, generator=torch.Generator().manual_seed(columns)).mul(2).round()
    x_RV[-1, :-1] = -torch.inf
    assert by_triton(x_RV).tolist() == np.argmax(x_RV.numpy(), 1).tolist()
    assert by_triton(torch.full((1, 3), -torch.inf)).tolist() == [0]
