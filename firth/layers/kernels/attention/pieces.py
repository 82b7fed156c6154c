"""Shared by the kernels of flash.py: their arguments, and how they load, mask and score a block. Triton unpacks tuples at no
cost, so arguments that belong together are passed together."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, index, operator, arg-type"

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


class MatrixPointer(NamedTuple):
    """B,H,n,w with w dense: a pointer and the strides."""

    at: Any
    b: Any
    h: Any
    n: Any


class TablePointer(NamedTuple):
    at: Any
    b: Any
    h: Any
    q: Any
    r: Any


class SpanRows(NamedTuple):
    """lo, hi and, if there is a hole, its bounds: the stride from one to the next, and from row to row."""

    at: Any
    s: Any
    b: Any  # 0 if all rows agree


class QueryRows(NamedTuple):
    """One block of queries: the keys they see, and their positions."""

    lo: Any
    hi: Any
    hole_lo: Any
    hole_hi: Any
    pos: Any
    row: Any  # 0 … of the block, which begins at `first`
    first: Any


class Extra(NamedTuple):
    """The terms that turn q·k into a score, for one head."""

    scale: Any
    bias: Any
    slope: Any
    table: Any
    left: Any
    right: Any


class AttentionConstants(NamedTuple):
    """All constants that a kernel is compiled for."""

    D: int
    E: int
    BLOCK_D: int
    BLOCK_E: int
    BLOCK_Q: int
    BLOCK_K: int
    NEAR: int  # step along the other side where the band is gathered, which takes registers
    GROUP: int  # query heads per key/value head
    FOLD: bool  # only the band is added to the scores, so that the scale can be applied with the exponential
    BIAS: bool
    SLOPE: bool
    HOLE: bool
    TABLE: bool
    WEIGHTS: bool
    CAUSAL: bool
    START: bool  # one q_start per row
    TABLE_GRAD: bool
    BIAS_GRAD: bool


@triton.jit
def tile(ptr, first, stride, limit, W: tl.constexpr, ROWS: tl.constexpr, BLOCK_W: tl.constexpr, MASKED: tl.constexpr):
    """Rows first … first + ROWS of a matrix of width W; zero beyond `limit` rows, which only a MASKED load may reach."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK_W)[None, :]
    # The start in 64 bits, offsets within the tile in 32: rows × stride may exceed 2³¹, a tile cannot.
    at = ptr + tl.cast(first, tl.int64) * stride + (row * stride + column)
    if MASKED and W != BLOCK_W:
        x = tl.load(at, mask=(first + row < limit) & (column < W), other=0.0)
    elif MASKED:
        x = tl.load(at, mask=first + row < limit, other=0.0)
    elif W != BLOCK_W:
        x = tl.load(at, mask=column < W, other=0.0)
    else:
        x = tl.load(at)
    return x


@triton.jit
def put(ptr, first, stride, limit, x, W: tl.constexpr, ROWS: tl.constexpr, BLOCK_W: tl.constexpr):
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK_W)[None, :]
    at = ptr + tl.cast(first, tl.int64) * stride + (row * stride + column)
    tl.store(at, x.to(ptr.dtype.element_ty), mask=(first + row < limit) & (column < W))


@triton.jit
def zero_matrix(ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    return tl.zeros((ROWS, COLUMNS), tl.float32)


@triton.jit
def zero_vector(ROWS: tl.constexpr):
    return tl.zeros((ROWS,), tl.float32)


@triton.jit
def start_of(start, q_start, b, KIND: tl.constexpr):
    return tl.load(start + b).to(tl.int32) if KIND.START else q_start


@triton.jit
def rows_of(spans, b, first, start, Q, KIND: tl.constexpr, ROWS: tl.constexpr):
    """Queries first … of row b; those beyond the last see nothing."""
    at = first + tl.arange(0, ROWS)
    row = b * spans.b + at
    lo = tl.load(spans.at + row, mask=at < Q, other=0)
    hi = tl.load(spans.at + spans.s + row, mask=at < Q, other=0)
    hole_lo = lo
    hole_hi = lo
    if KIND.HOLE:
        hole_lo = tl.load(spans.at + 2 * spans.s + row, mask=at < Q, other=0)
        hole_hi = tl.load(spans.at + 3 * spans.s + row, mask=at < Q, other=0)
    return QueryRows(lo, hi, hole_lo, hole_hi, start + at, tl.arange(0, ROWS), first)


@triton.jit
def across(x_Q, TURNED: tl.constexpr):
    """A vector over queries, laid along a block of scores: queries down, or TURNED across."""
    return x_Q[None, :] if TURNED else x_Q[:, None]


@triton.jit
def relation(rows, k_pos, KIND: tl.constexpr, MASKED: tl.constexpr, TURNED: tl.constexpr):
    """k − q_pos, and whether the query sees the key; not used in a block that is full."""
    rel = k_pos
    seen = k_pos
    if MASKED:
        k = across(k_pos, not TURNED)
        rel = k - across(rows.pos, TURNED)
        seen = (k >= across(rows.lo, TURNED)) & (k < across(rows.hi, TURNED))
        if KIND.HOLE:
            seen = seen & ((k < across(rows.hole_lo, TURNED)) | (k >= across(rows.hole_hi, TURNED)))
    return rel, seen


@triton.jit
def column(table, first, r, Q, KIND: tl.constexpr):
    """Column r of a table, in float32, for one block of queries."""
    at = first + tl.arange(0, KIND.BLOCK_Q)
    return tl.load(table.at + tl.cast(at, tl.int64) * table.q + r * table.r, mask=at < Q, other=0.0).to(tl.float32)


@triton.jit
def gather(table, rows, rel, seen, left, right, TURNED: tl.constexpr):
    """Column r(k) of each query's row."""
    r = tl.minimum(tl.maximum(rel, -left), right) + left
    at = table.at + tl.cast(rows.first, tl.int64) * table.q + (across(rows.row, TURNED) * table.q + r * table.r)
    return tl.load(at, mask=seen, other=0.0).to(tl.float32)


@triton.jit
def head_of(table, b, h, SOME: tl.constexpr):
    if SOME:
        table = TablePointer(table.at + b * table.b + h * table.h, table.b, table.h, table.q, table.r)
    return table


@triton.jit
def extra_of(scale, bias, bias_b, bias_g, slope, table, left, right, b, g, h, KIND: tl.constexpr):
    if KIND.BIAS:
        bias += b * bias_b + g * bias_g
    if KIND.SLOPE:
        slope = tl.load(slope + h) * LOG2E
    return Extra(scale, bias, slope, head_of(table, b, h, KIND.TABLE), left, right)


@triton.jit
def scores(qk, extra, rows, k_pos, rel, seen, K, KIND: tl.constexpr, NEAR: tl.constexpr, TURNED: tl.constexpr):
    """The scores of a block in powers of 2, without the edge of the band. If nothing else is added either (FOLD and not NEAR),
    q·k itself: the scale is then applied with the exponential, at no cost."""
    if not KIND.FOLD or NEAR:
        qk = qk * extra.scale
    if KIND.BIAS:
        qk += across(tl.load(extra.bias + k_pos, mask=k_pos < K, other=0.0) * LOG2E, not TURNED)
    if KIND.SLOPE:
        # The gap is exact in float32; slope·k − slope·q would not be.
        gap = across(k_pos.to(tl.float32), not TURNED) - across(rows.pos.to(tl.float32), TURNED)
        qk += extra.slope * gap if KIND.CAUSAL else -extra.slope * tl.abs(gap)
    if NEAR and KIND.TABLE:
        qk += gather(extra.table, rows, rel, seen, extra.left, extra.right, TURNED) * LOG2E
    return qk


@triton.jit
def power(s, shift, extra, KIND: tl.constexpr, NEAR: tl.constexpr):
    """2^(s − shift), one multiply-add before the exponential either way."""
    if KIND.FOLD and not NEAR:
        s = s * extra.scale
    return tl.exp2(s - shift)


@triton.jit
def spread(at, x, rows, rel, seen, extra, KIND: tl.constexpr):
    """Write the weight of a single key into its column (each address is written once), and add up the weights that share an end.

    A column other than the ends has one key per query. Causal, so has the last: its key is the query's own."""
    R = extra.left + extra.right + 1
    alone = seen & (rel > -extra.left)
    if not KIND.CAUSAL:
        alone = alone & (rel < extra.right)
    column = rows.row[:, None] * R + rel + extra.left
    tl.store(at + tl.cast(rows.first, tl.int64) * R + column, x.to(at.dtype.element_ty), mask=alone)
    to_left = tl.sum(tl.where(rel <= -extra.left, x, 0.0), 1)
    to_right = tl.sum(tl.where((rel >= extra.right) & (rel > -extra.left), x, 0.0), 1)
    return to_left, to_right


@triton.jit
def put_ends(at, first, to_left, to_right, Q, R, KIND: tl.constexpr):
    row = first + tl.arange(0, KIND.BLOCK_Q)
    ends = at + tl.cast(row, tl.int64) * R
    if not KIND.CAUSAL:
        to_left = tl.where(R == 1, to_left + to_right, to_left)  # one column is both ends
        tl.store(ends + R - 1, to_right.to(at.dtype.element_ty), mask=(row < Q) & (R > 1))
    tl.store(ends, to_left.to(at.dtype.element_ty), mask=row < Q)


@triton.jit
def bounds_of(bounds, bounds_b, b, block):
    at = bounds + b * bounds_b + block * 4
    return tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3)


@triton.jit
def near_blocks(first, left, right, a, b, c, d, OWN: tl.constexpr, OTHER: tl.constexpr, KIND: tl.constexpr, TURNED: tl.constexpr):
    """[start, end) of the other side's blocks that need the band, for a block of OWN that begins at `first`.

    Before them all keys lie beyond one end of it, in blocks that are masked up to b and full from there; after them beyond the
    other, in blocks that are full up to c. TURNED (blocks of queries as seen from keys), the right end comes first."""
    before = (first - (right if TURNED else left) + 1) // OTHER
    after = (first + OWN + (left if TURNED else right) + OTHER - 2) // OTHER
    if KIND.CAUSAL:  # nothing to the right is visible
        if TURNED:
            before = a
        else:
            after = d
    start = tl.maximum(a, tl.minimum(before, c))
    return start, tl.maximum(start, tl.minimum(d, tl.maximum(after, b)))


# Each kernel loops over the other side in runs, [first, last) in STEPs; a MASKED run leaves out [full, past), which another run
# covers. Their order is free with one exception: if the run that gathers (NEAR) comes first in dkv, or the masked one after the
# full, ptxas gives up on overlapping the products with anything else (and says so: C7515).
