"""The place of the largest number in each row; of several that are equally large, the first, on every device."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor

from firth.layers.kernels.triton.lazy import import_triton, jit, tl, triton

_TRITON = find_spec("triton") is not None
_BLOCK = 4096


def argmax(x_RV: Tensor) -> Tensor:
    """place_R. On a GPU, torch divides a single row among blocks that wait for each other, which takes three times as long."""
    return by_triton(x_RV) if x_RV.is_cuda and _TRITON and x_RV.dtype.itemsize <= 4 else x_RV.argmax(-1)


def by_triton(x_RV: Tensor) -> Tensor:
    import_triton(__name__)
    R, V = x_RV.shape
    place_R = torch.empty(R, dtype=torch.int64, device=x_RV.device)
    _argmax[(R,)](x_RV, place_R, V, *x_RV.stride(), BLOCK=min(_BLOCK, triton.next_power_of_2(V)), num_warps=8)
    return place_R


@jit
def _argmax(x_at, place_at, V, row_stride, column_stride, BLOCK: tl.constexpr):
    """One program per row, which remembers the best of every column of a block."""
    row, k_K = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    best_K = tl.full([BLOCK], float("-inf"), tl.float32)
    place_K = k_K
    for at in range(0, V, BLOCK):
        column_K = at + k_K
        x_K = tl.load(x_at + row * row_stride + column_K * column_stride, mask=column_K < V, other=float("-inf")).to(tl.float32)
        better_K = x_K > best_K
        best_K = tl.where(better_K, x_K, best_K)
        place_K = tl.where(better_K, column_K, place_K)
    tl.store(place_at + row, tl.min(tl.where(best_K == tl.max(best_K, 0), place_K, V - 1), 0).to(tl.int64))
