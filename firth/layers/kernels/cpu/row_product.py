"""y = W x + b for one row, at the speed at which W can be read. Letters: d and o widths.

MKL's product of one row reads a large W, such as the output layer's, at three quarters of that speed with two threads.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from firth.layers.kernels.cpu import team

if TYPE_CHECKING:
    from firth.layers.kernels.cpu.code import Compiled

FIELDS = ("taken", "W", "x", "y", "bias", "d", "o")
LANES = 16  # widths are multiples of these
ROWS = 4  # of W, read side by side
LARGE = 1 << 22  # numbers in W: with fewer, the call costs what it saves


def why_not(x_1d: Tensor, W_od: Tensor) -> str | None:
    if len(x_1d) != 1 or W_od.numel() < LARGE:
        return "it is for one row and a large matrix"
    if x_1d.dtype != torch.float32 or W_od.dtype != torch.float32 or not (x_1d.is_cpu and W_od.is_cpu):
        return "it computes in float32 on a CPU"
    if not W_od.is_contiguous() or W_od.shape[1] % LANES or len(W_od) < ROWS:
        return f"W has to be contiguous, with a multiple of {LANES} columns"
    return team.why_not()


def linear(x_1d: Tensor, W_od: Tensor, b_o: Tensor | None) -> Tensor:
    """y_1o."""
    x_1d, y_1o = x_1d.contiguous(), x_1d.new_empty(1, len(W_od))
    b_o = None if b_o is None else b_o.contiguous()
    addresses = (0 if tensor is None else tensor.data_ptr() for tensor in (W_od, x_1d, y_1o, b_o))
    team.run(_kernel(b_o is not None), (0, *addresses, W_od.shape[1], len(W_od)))
    return y_1o


@cache
def _kernel(biased: bool) -> Compiled:
    from firth.layers.kernels.cpu.row_product_code import product

    return product(biased)
