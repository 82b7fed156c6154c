"""y = x Wᵀ + b for a few rows, at the speed at which W can be read. Letters: N rows of x, d and o widths, L lanes.

With 16 rows, MKL's product of float32 takes about twice as long as reading W does. Here a tile of L outputs × L rows stays in
registers, one vector of rows for each output:

    y_on += w_od x_dn        for every d: L numbers of W, each broadcast to the lanes, times one vector of x

W is read once, in the order in which it lies in memory. Sums are made of pieces of 256 terms, which keeps rounding errors small.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.layers.kernels.cpu import team

if TYPE_CHECKING:
    from firth.layers.kernels.cpu.code import Compiled

FIELDS = ("taken", "W", "x", "y", "bias", "d", "o", "N", "zero")
FEW = range(6, 33)  # rows: with fewer or more, MKL is faster
PIECE = 256  # terms of a partial sum
UNROLLED = 4
ALIASING = 512  # columns: rows of a multiple of these compete for the same few places in the first cache
TILES = 2  # that a thread takes at a time


def why_not(x_Nd: Tensor, W_od: Tensor) -> str | None:
    if len(x_Nd) not in FEW:
        return f"it is for {FEW.start} to {FEW.stop - 1} rows"
    if x_Nd.dtype != torch.float32 or W_od.dtype != torch.float32 or not (x_Nd.is_cpu and W_od.is_cpu):
        return "it computes in float32 on a CPU"
    if not W_od.is_contiguous() or len(W_od) < 16:
        return "W has to be contiguous, with at least 16 rows"
    return team.why_not()


def linear(x_Nd: Tensor, W_od: Tensor, b_o: Tensor | None) -> Tensor:
    """x Wᵀ + b."""
    from firth.layers.kernels.cpu.code import lanes

    (N, d), o, L = x_Nd.shape, len(W_od), lanes()
    y_No = x_Nd.new_empty(N, o)
    groups = -(-N // L)
    if N % L:
        x_Nd = F.pad(x_Nd, (0, 0, 0, groups * L - N))
    x_gdL = x_Nd.view(groups, L, d).transpose(1, 2).contiguous()
    b_o = None if b_o is None else b_o.contiguous()
    addresses = (0 if tensor is None else tensor.data_ptr() for tensor in (W_od, x_gdL, y_No, b_o))
    team.run(_kernel(d % ALIASING == 0, b_o is not None), (0, *addresses, d, o, N, 0))
    return y_No


@cache
def _kernel(copied: bool, biased: bool) -> Compiled:
    from firth.layers.kernels.cpu.product_code import product

    return product(copied, biased)
