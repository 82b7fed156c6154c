"""y = x Wᵀ + b for the few rows of a decoding step. Letters: N rows of x, n any leading axes, d and o widths.

On a CPU, with some rows, W is read in the order in which it lies in memory: by cpu/product.py, or by MKL, which multiplies W by
xᵀ in about two thirds of the time that x by Wᵀ takes. With fewer or more rows it is the other way round. One row times a large W
is cpu/row_product.py's.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.layers.kernels.cpu import product, row_product

FEW = range(8, 65)
DEEP = 512  # numbers of a row of W: with fewer, the copy at the end costs what the product saves
LARGE = 1 << 18  # numbers in W; a smaller one stays in the cache


def linear(x_nd: Tensor, w_od: Tensor, b_o: Tensor | None = None) -> Tensor:
    """y_no."""
    if torch.is_grad_enabled() or not x_nd.is_cpu or x_nd.dtype != torch.float32 or torch.compiler.is_compiling():
        return F.linear(x_nd, w_od, b_o)
    rows = x_nd.numel() // x_nd.shape[-1]
    if not (rows == 1 or rows in FEW or rows in product.FEW) or w_od.dtype != torch.float32:
        return F.linear(x_nd, w_od, b_o)
    if w_od.shape[1] < DEEP or w_od.numel() < LARGE or torch.is_autocast_enabled("cpu"):
        return F.linear(x_nd, w_od, b_o)
    x_Nd = x_nd.reshape(rows, -1)
    if row_product.why_not(x_Nd, w_od) is None:
        return row_product.linear(x_Nd, w_od, b_o).view(*x_nd.shape[:-1], -1)
    if product.why_not(x_Nd, w_od) is None:
        return product.linear(x_Nd, w_od, b_o).view(*x_nd.shape[:-1], -1)
    if rows not in FEW:
        return F.linear(x_nd, w_od, b_o)
    x_dN = x_Nd.t()
    y_oN = torch.mm(w_od, x_dN) if b_o is None else torch.addmm(b_o.unsqueeze(1), w_od, x_dN)
    # Copied: torch's attention on a CPU is slow with queries whose numbers are not next to each other.
    return y_oN.t().contiguous().view(*x_nd.shape[:-1], -1)
