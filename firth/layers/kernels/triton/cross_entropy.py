"""turn_into_gradient() of cross_entropy.py in Triton: one program per row, which is read from memory once and written once."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK, WARPS = 8192, 8
LOG2_E = tl.constexpr(1.4426950408889634)


def turn_into_gradient(logits_RV: Tensor, target_R: Tensor, share: float) -> Tensor:
    R, V = logits_RV.shape
    loss_R = logits_RV.new_empty(R, dtype=torch.float32)
    block = min(BLOCK, triton.next_power_of_2(V))
    with torch.cuda.device_of(logits_RV):
        _row_kernel[(R,)](logits_RV, target_R, loss_R, logits_RV.stride(0), V, share, BLOCK=block, num_warps=WARPS)
    return loss_R


@triton.jit
def _row_kernel(logits_RV, target_R, loss_R, stride, V, share, BLOCK: tl.constexpr):
    """lse = c + log Σ exp(z − c), whatever c is, as long as nothing overflows: c is the maximum of the first block, which spares
    the others the search. Then z ← share · (exp(z − lse) − [column = target]). −1 is padding."""
    row = tl.program_id(0).to(tl.int64)
    z = logits_RV + row * stride
    target = tl.load(target_R + row)
    known = (target >= 0) & (target < V)  # an id outside the vocabulary gives NaN instead of reading other memory
    counts = tl.where(target == -1, 0.0, 1.0)
    at = tl.load(z + target, known, float("nan")).to(tl.float32)  # before any thread writes
    columns = tl.arange(0, BLOCK)
    c = tl.max(tl.load(z + columns, columns < V, -float("inf"), eviction_policy="evict_last").to(tl.float32), 0)
    sum_n = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, V, BLOCK):
        z_n = tl.load(z + start + columns, start + columns < V, -float("inf"), eviction_policy="evict_last").to(tl.float32)
        sum_n += tl.exp2(z_n * LOG2_E - c * LOG2_E)
    total = tl.sum(sum_n, 0)
    if not total < float("inf"):  # a logit some 88 above c, or one that is not a number
        c, total = _with_running_maximum(z, V, BLOCK)
    lse = c + tl.log(total)
    tl.store(loss_R + row, tl.where(target == -1, 0.0, lse - at))
    blocks = tl.cdiv(V, BLOCK)
    for number in range(blocks):
        start = (blocks - 1 - number) * BLOCK  # backwards: the blocks read last are still in the cache
        inside = start + columns < V
        z_n = tl.load(z + start + columns, inside, 0.0, eviction_policy="evict_first").to(tl.float32)
        p_n = tl.exp2(z_n * LOG2_E - lse * LOG2_E) - tl.where(start + columns == target, 1.0, 0.0)
        dz_n = (p_n * (share * counts)).to(logits_RV.dtype.element_ty)
        tl.store(z + start + columns, dz_n, inside, eviction_policy="evict_first")


@triton.jit
def _with_running_maximum(z, V, BLOCK: tl.constexpr):
    """m and Σ exp(z − m)."""
    columns = tl.arange(0, BLOCK)
    m = tl.full((), -float("inf"), tl.float32)
    sum_n = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, V, BLOCK):
        z_n = tl.load(z + start + columns, start + columns < V, -float("inf")).to(tl.float32)
        higher = tl.maximum(m, tl.max(z_n, 0))
        at_least = tl.maximum(higher, -3e38)  # −∞ − −∞ would not be a number
        sum_n = sum_n * tl.exp(m - at_least) + tl.exp(z_n - at_least)
        m = higher
    return m, tl.sum(sum_n, 0)
