"""The largest number of each row: one program per row, which remembers the best of every column of a block."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 4096


def argmax(x_RV: Tensor) -> Tensor:
    R, V = x_RV.shape
    place_R = torch.empty(R, dtype=torch.int64, device=x_RV.device)
    _argmax[(R,)](x_RV, place_R, V, *x_RV.stride(), BLOCK=min(_BLOCK, triton.next_power_of_2(V)), num_warps=8)
    return place_R


@triton.jit
def _argmax(x_at, place_at, V, row_stride, column_stride, BLOCK: tl.constexpr):
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
