"""Attention in one pass over the keys (Dao 2023), for what torch does not fuse: forward and backward, in Triton.

    s_bhqk = scale · q_bhq · k_bgk + key_bias_bgk − slope_h · |q_pos − k| + table_bhqr    r = clip(k − q_pos, −left, right) + left
    p_bhqk = softmax over the visible keys of s_bhqk                                      q_pos = q_start + q
    o_bhqe = Σ_k p_bhqk v_bgke
    w_bhqr = Σ_{k : r(k) = r} p_bhqk                                                      the weights of the band, where wanted

and with dp_bhqk = do_bhq · v_bgk + dw_bhqr, delta_bhq = Σ_e do·o + Σ_r dw·w, ds = p ∘ (dp − delta) the derivatives. Whether a
query sees nothing is read off its span, never off its scores: one that sees only −inf gives NaN, as it should.

A key at or beyond an end of the band has the first or the last column, which is one number per query: in blocks that lie wholly
there it joins the softmax's maximum and costs nothing, so only the few blocks near the diagonal gather. All scores are in powers
of 2: exp2 is what the hardware has.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, index, operator, arg-type"

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention.fused import blocks
from firth.layers.attention.fused.blocks import Plan, Tile
from firth.layers.attention.spans import Spans

LOG2E = tl.constexpr(1.4426950408889634)


class Band(NamedTuple):
    """The distances k − q_pos from −left to right, those beyond clipped to the ends: R = left + right + 1 columns."""

    left: int
    right: int
    table_BHQR: Tensor | None = None  # added to the scores; any strides, 0 among them
    weights: bool = False  # whether w_BHQR is wanted


def flash(
    q_BHQD: Tensor,
    k_BGKD: Tensor,
    v_BGKE: Tensor,
    spans: Spans,
    scale: float,
    *,
    key_bias_BGK: Tensor | None = None,
    slope_H: Tensor | None = None,
    band: Band | None = None,
    q_start: int | Tensor = 0,
    causal: bool = False,
    plan: Plan | None = None,
) -> tuple[Tensor, Tensor | None]:
    """o_BHQE, and w_BHQR where the band's weights are wanted.

    `causal` promises that no query sees a key after its own position: then nobody looks to the right of the band. `plan` is
    `blocks.plan` of these spans for `blocks.tiles`, if the caller has kept it."""
    B, H, Q, D = q_BHQD.shape
    K, E = v_BGKE.shape[2:]
    band = band or Band(0, 0)
    table_BHQR = band.table_BHQR
    expected = (B, H, Q, band.left + band.right + 1)
    if table_BHQR is not None and table_BHQR.shape != expected:
        raise ConfigError(f"the table has shape {tuple(table_BHQR.shape)}; expected {expected}, expanded if need be")
    if plan is None:
        leaves = (q_BHQD, k_BGKD, v_BGKE, key_bias_BGK, table_BHQR)
        backward = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in leaves)
        plan = blocks.plan(spans, Q, K, blocks.tiles(D, E, table_BHQR is not None or band.weights, q_BHQD.dtype), backward)
    start_B = q_start.reshape(-1).expand(B).contiguous() if isinstance(q_start, Tensor) else None
    o_BHQE, _, w_BHQR = _flash(
        *(_dense_rows(x) for x in (q_BHQD, k_BGKD, v_BGKE)),
        None if key_bias_BGK is None else _dense_rows(key_bias_BGK.float()),
        table_BHQR,
        None if slope_H is None else _dense_rows(slope_H.float()),
        start_B,
        *_level(spans),
        plan.forward_bm4,
        plan.dq_bm4,
        plan.dkv_bn4,
        scale,
        0 if isinstance(q_start, Tensor) else q_start,
        band.left,
        band.right,
        band.weights,
        causal,
        [number or 0 for tile in plan.tiles for number in tile],
    )
    return o_BHQE, w_BHQR if band.weights else None


def _dense_rows(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def _level(spans: Spans) -> tuple[Tensor | None, ...]:
    """All bounds with as many rows: the kernels know one stride."""
    b = max(len(x) for x in spans if x is not None)
    return tuple(None if x is None else x.expand(b, -1).contiguous() for x in spans)


# ── What the kernels are handed: tuples, because Triton takes them apart for nothing ────────────────────────────────────────────


class _Matrix(NamedTuple):
    """B,H,n,w with w dense: where it starts, and its strides."""

    at: Any
    b: Any
    h: Any
    n: Any


class _Table(NamedTuple):
    at: Any
    b: Any
    h: Any
    q: Any
    r: Any


class _Spans(NamedTuple):
    lo: Any
    hi: Any
    hole_lo: Any
    hole_hi: Any
    b: Any  # 0 where all rows agree


class _Rows(NamedTuple):
    """One block of queries: what they see, and where they stand."""

    lo: Any
    hi: Any
    hole_lo: Any
    hole_hi: Any
    pos: Any
    row: Any  # 0 … of the block, which begins at `first`
    first: Any


class _Extra(NamedTuple):
    """What makes a score of q·k, for one head."""

    scale: Any
    bias: Any
    slope: Any
    table: Any
    left: Any
    right: Any


class _Kind(NamedTuple):
    """All that a kernel is compiled for."""

    D: int
    E: int
    BLOCK_D: int
    BLOCK_E: int
    BLOCK_Q: int
    BLOCK_K: int
    NEAR: int  # of the side that is run along, where the band is gathered: that takes registers
    GROUP: int  # query heads per key/value head
    FOLD: bool  # nothing but the band is added to the scores: the scale can wait for the exponential
    BIAS: bool
    SLOPE: bool
    HOLE: bool
    TABLE: bool
    WEIGHTS: bool
    CAUSAL: bool
    START: bool  # one q_start per row
    TABLE_GRAD: bool
    BIAS_GRAD: bool


# ── What the kernels share ──────────────────────────────────────────────────────────────────────────────────────────────────────


@triton.jit
def _tile(ptr, first, stride, limit, W: tl.constexpr, ROWS: tl.constexpr, BLOCK_W: tl.constexpr, MASKED: tl.constexpr):
    """Rows first … first + ROWS of a matrix of width W; zero beyond `limit` rows, which only a MASKED load may reach."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK_W)[None, :]
    # The start in 64 bits, what lies in the tile in 32: rows × stride may pass 2³¹, a tile cannot.
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
def _put(ptr, first, stride, limit, x, W: tl.constexpr, ROWS: tl.constexpr, BLOCK_W: tl.constexpr):
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK_W)[None, :]
    at = ptr + tl.cast(first, tl.int64) * stride + (row * stride + column)
    tl.store(at, x.to(ptr.dtype.element_ty), mask=(first + row < limit) & (column < W))


@triton.jit
def _zeros(ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    return tl.zeros((ROWS, COLUMNS), tl.float32)


@triton.jit
def _zero(ROWS: tl.constexpr):
    return tl.zeros((ROWS,), tl.float32)


@triton.jit
def _start(start, q_start, b, KIND: tl.constexpr):
    return tl.load(start + b).to(tl.int32) if KIND.START else q_start


@triton.jit
def _rows(spans, b, first, start, Q, KIND: tl.constexpr, ROWS: tl.constexpr):
    """Queries first … of row b; those beyond the last see nothing."""
    at = first + tl.arange(0, ROWS)
    row = b * spans.b + at
    lo = tl.load(spans.lo + row, mask=at < Q, other=0)
    hi = tl.load(spans.hi + row, mask=at < Q, other=0)
    hole_lo = lo
    hole_hi = lo
    if KIND.HOLE:
        hole_lo = tl.load(spans.hole_lo + row, mask=at < Q, other=0)
        hole_hi = tl.load(spans.hole_hi + row, mask=at < Q, other=0)
    return _Rows(lo, hi, hole_lo, hole_hi, start + at, tl.arange(0, ROWS), first)


@triton.jit
def _across(x_Q, TURNED: tl.constexpr):
    """A vector over queries, laid along a block of scores: queries down, or TURNED across."""
    return x_Q[None, :] if TURNED else x_Q[:, None]


@triton.jit
def _relation(rows, k_pos, KIND: tl.constexpr, MASKED: tl.constexpr, TURNED: tl.constexpr):
    """k − q_pos, and whether the query sees the key; nobody asks in a block that is full."""
    rel = k_pos
    seen = k_pos
    if MASKED:
        k = _across(k_pos, not TURNED)
        rel = k - _across(rows.pos, TURNED)
        seen = (k >= _across(rows.lo, TURNED)) & (k < _across(rows.hi, TURNED))
        if KIND.HOLE:
            seen = seen & ((k < _across(rows.hole_lo, TURNED)) | (k >= _across(rows.hole_hi, TURNED)))
    return rel, seen


@triton.jit
def _column(table, first, r, Q, KIND: tl.constexpr):
    """Column r of a table, in float32, for one block of queries."""
    at = first + tl.arange(0, KIND.BLOCK_Q)
    return tl.load(table.at + tl.cast(at, tl.int64) * table.q + r * table.r, mask=at < Q, other=0.0).to(tl.float32)


@triton.jit
def _gather(table, rows, rel, seen, left, right, TURNED: tl.constexpr):
    """Column r(k) of each query's row."""
    r = tl.minimum(tl.maximum(rel, -left), right) + left
    at = table.at + tl.cast(rows.first, tl.int64) * table.q + (_across(rows.row, TURNED) * table.q + r * table.r)
    return tl.load(at, mask=seen, other=0.0).to(tl.float32)


@triton.jit
def _head(table, b, h, SOME: tl.constexpr):
    if SOME:
        table = _Table(table.at + b * table.b + h * table.h, table.b, table.h, table.q, table.r)
    return table


@triton.jit
def _extra(scale, bias, bias_b, bias_g, slope, table, left, right, b, g, h, KIND: tl.constexpr):
    if KIND.BIAS:
        bias += b * bias_b + g * bias_g
    if KIND.SLOPE:
        slope = tl.load(slope + h) * LOG2E
    return _Extra(scale, bias, slope, _head(table, b, h, KIND.TABLE), left, right)


@triton.jit
def _scores(qk, extra, rows, k_pos, rel, seen, K, KIND: tl.constexpr, NEAR: tl.constexpr, TURNED: tl.constexpr):
    """The scores of a block in powers of 2, less what the edge of the band adds. Where nothing else is added either (FOLD and not
    NEAR) q·k itself: whoever takes the exponential multiplies by the scale then, for nothing."""
    if not KIND.FOLD or NEAR:
        qk = qk * extra.scale
    if KIND.BIAS:
        qk += _across(tl.load(extra.bias + k_pos, mask=k_pos < K, other=0.0) * LOG2E, not TURNED)
    if KIND.SLOPE:
        # The gap is exact in float32; slope·k − slope·q would not be.
        gap = _across(k_pos.to(tl.float32), not TURNED) - _across(rows.pos.to(tl.float32), TURNED)
        qk += extra.slope * gap if KIND.CAUSAL else -extra.slope * tl.abs(gap)
    if NEAR and KIND.TABLE:
        qk += _gather(extra.table, rows, rel, seen, extra.left, extra.right, TURNED) * LOG2E
    return qk


@triton.jit
def _power(s, shift, extra, KIND: tl.constexpr, NEAR: tl.constexpr):
    """2^(s − shift), one multiply-add before the exponential either way."""
    if KIND.FOLD and not NEAR:
        s = s * extra.scale
    return tl.exp2(s - shift)


@triton.jit
def _spread(at, x, rows, rel, seen, extra, KIND: tl.constexpr):
    """Put what belongs to one key alone into its column (each address is written once), and add up what the ends share.

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
def _put_ends(at, first, to_left, to_right, Q, R, KIND: tl.constexpr):
    row = first + tl.arange(0, KIND.BLOCK_Q)
    ends = at + tl.cast(row, tl.int64) * R
    if not KIND.CAUSAL:
        to_left = tl.where(R == 1, to_left + to_right, to_left)  # one column is both ends
        tl.store(ends + R - 1, to_right.to(at.dtype.element_ty), mask=(row < Q) & (R > 1))
    tl.store(ends, to_left.to(at.dtype.element_ty), mask=row < Q)


@triton.jit
def _bounds(bounds, bounds_b, b, block):
    at = bounds + b * bounds_b + block * 4
    return tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3)


@triton.jit
def _near(first, left, right, a, b, c, d, OWN: tl.constexpr, OTHER: tl.constexpr, KIND: tl.constexpr, TURNED: tl.constexpr):
    """[start, end) of the other side's blocks that need the band, for a block of OWN that stands at `first`.

    Before them all keys lie beyond one end of it, in blocks that are masked up to b and full from there; after them beyond the
    other, in blocks that are full up to c. TURNED, blocks of queries seen from keys, comes the right end first."""
    before = (first - (right if TURNED else left) + 1) // OTHER
    after = (first + OWN + (left if TURNED else right) + OTHER - 2) // OTHER
    if KIND.CAUSAL:  # nothing that is visible lies to the right
        if TURNED:
            before = a
        else:
            after = d
    start = tl.maximum(a, tl.minimum(before, c))
    return start, tl.maximum(start, tl.minimum(d, tl.maximum(after, b)))


# Each kernel goes along the other side in runs, [first, last) in STEPs; a MASKED run leaves out [full, past), which is another's.
# Their order is free, but for one thing: if the run that gathers (NEAR) comes first in dkv, or the masked one after the full,
# ptxas gives up on overlapping the products with anything else (and says so: C7515).

# ── Forward: a program per block of queries and head ────────────────────────────────────────────────────────────────────────────


@triton.jit
def _forward_run(
    state, q, k, v, extra, rows, edge, first, last, full, past, K,
    KIND: tl.constexpr, MASKED: tl.constexpr, NEAR: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """edge: what the band adds to the whole row."""
    acc, total, top = state
    for i in tl.range(first, last, num_stages=1 if NEAR else None):
        j = i
        if MASKED:
            j = i + tl.where(i >= full, past - full, 0)
        at = j * STEP
        k_pos = at + tl.arange(0, STEP)
        rel, seen = _relation(rows, k_pos, KIND, MASKED, False)
        key = _tile(k.at, at, k.n, K, KIND.D, STEP, KIND.BLOCK_D, MASKED)
        s = tl.dot(q, tl.trans(key), input_precision="ieee")
        s = _scores(s, extra, rows, k_pos, rel, seen, K, KIND, NEAR, False)
        if MASKED:
            s = tl.where(seen, s, float("-inf"))
        highest = tl.max(s, 1)
        if KIND.FOLD and not NEAR:
            highest = highest * extra.scale
        risen = tl.maximum(top, highest + edge)
        # Nothing seen so far, or nothing but −inf: −inf − −inf would be NaN where something may still come.
        base = tl.where(risen == float("-inf"), 0.0, risen)
        p = _power(s, (base - edge)[:, None], extra, KIND, NEAR)
        shrink = tl.exp2(top - base)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        value = _tile(v.at, at, v.n, K, KIND.E, STEP, KIND.BLOCK_E, MASKED)
        acc = tl.dot(p.to(value.dtype), value, acc, input_precision="ieee")
        top = risen
    return acc, total, top


@triton.jit(do_not_specialize=["q_start", "left", "right"])
def _forward(  # noqa: PLR0915
    q, k, v, o, lse, spans, bounds, bounds_b, bias, bias_b, bias_g, slope, table, w, start,
    H, Q, K, q_start, left, right, scale,
    KIND: tl.constexpr,
):  # fmt: skip
    m = tl.cdiv(Q, KIND.BLOCK_Q)
    block = m - 1 - tl.program_id(0) % m  # under a causal mask the last are the longest: they start first
    bh = tl.cast(tl.program_id(0) // m, tl.int64)
    b, h = bh // H, bh % H
    g = h // KIND.GROUP
    first = block * KIND.BLOCK_Q
    start = _start(start, q_start, b, KIND)
    rows = _rows(spans, b, first, start, Q, KIND, KIND.BLOCK_Q)
    k = _Matrix(k.at + b * k.b + g * k.h, k.b, k.h, k.n)
    v = _Matrix(v.at + b * v.b + g * v.h, v.b, v.h, v.n)
    extra = _extra(scale, bias, bias_b, bias_g, slope, table, left, right, b, g, h, KIND)
    a, full, past, d = _bounds(bounds, bounds_b, b, block)
    query = _tile(q.at + b * q.b + h * q.h, first, q.n, Q, KIND.D, KIND.BLOCK_Q, KIND.BLOCK_D, True)

    STEP: tl.constexpr = KIND.BLOCK_K
    zero = _zero(KIND.BLOCK_Q)
    state = (_zeros(KIND.BLOCK_Q, KIND.BLOCK_E), zero, zero - float("inf"))
    if not KIND.TABLE and not KIND.WEIGHTS:
        state = _forward_run(state, query, k, v, extra, rows, zero, a, d - (past - full), full, past, K, KIND, True, False, STEP)
        state = _forward_run(state, query, k, v, extra, rows, zero, full, past, 0, 0, K, KIND, False, False, STEP)
        acc, total, top = state
    else:
        R = left + right + 1
        FINE: tl.constexpr = KIND.BLOCK_K // KIND.NEAR
        near, far = _near(start + first, left, right, a, full, past, d, KIND.BLOCK_Q, KIND.BLOCK_K, KIND, False)
        edge = zero
        if KIND.TABLE:
            edge = _column(extra.table, first, 0, Q, KIND) * LOG2E
        state = _forward_run(state, query, k, v, extra, rows, edge, a, tl.minimum(full, near), 0, 0, K, KIND, True, False, STEP)
        state = _forward_run(state, query, k, v, extra, rows, edge, full, near, 0, 0, K, KIND, False, False, STEP)
        _, total_left, top_left = state
        state = _forward_run(state, query, k, v, extra, rows, zero, near * FINE, far * FINE, 0, 0, K, KIND, True, True, KIND.NEAR)
        acc, total, top = state
        total_right = zero
        if not KIND.CAUSAL:
            if KIND.TABLE:
                edge = _column(extra.table, first, R - 1, Q, KIND) * LOG2E
            total_near, top_near = total, top
            state = (acc, zero, top)  # what lies to the right is added up on its own: the last column of w is its sum
            state = _forward_run(state, query, k, v, extra, rows, edge, far, past, 0, 0, K, KIND, False, False, STEP)
            state = _forward_run(
                state, query, k, v, extra, rows, edge, tl.maximum(far, past), d, 0, 0, K, KIND, True, False, STEP
            )
            acc, total_right, top = state
            total = total_near * tl.exp2(top_near - tl.where(top == float("-inf"), 0.0, top)) + total_right

    some = rows.lo < rows.hi
    if KIND.HOLE:
        some = some & ((rows.lo < rows.hole_lo) | (rows.hi > rows.hole_hi) | (rows.hole_lo >= rows.hole_hi))
    out = tl.where(some[:, None], acc / total[:, None], 0.0)
    norm = tl.where(some, top + tl.log2(total), float("inf"))  # inf: the backward pass finds weights of 0
    _put(o + (b * Q * H + h) * KIND.E, first, H * KIND.E, Q, out, KIND.E, KIND.BLOCK_Q, KIND.BLOCK_E)
    at = first + tl.arange(0, KIND.BLOCK_Q)
    tl.store(lse + bh * Q + at, norm, mask=at < Q)

    if KIND.WEIGHTS:
        w += bh * Q * R
        to_left = total_left * tl.exp2(top_left - norm)
        to_right = total_right * tl.exp2(top - norm)
        for j in tl.range(near * FINE, far * FINE, num_stages=1):  # once more, now that the sum is known
            k_pos = j * KIND.NEAR + tl.arange(0, KIND.NEAR)
            rel, seen = _relation(rows, k_pos, KIND, True, False)
            key = _tile(k.at, j * KIND.NEAR, k.n, K, KIND.D, KIND.NEAR, KIND.BLOCK_D, True)
            s = tl.dot(query, tl.trans(key), input_precision="ieee")
            s = _scores(s, extra, rows, k_pos, rel, seen, K, KIND, True, False)
            p = tl.where(seen, _power(s, norm[:, None], extra, KIND, True), 0.0)
            more_left, more_right = _spread(w, p, rows, rel, seen, extra, KIND)
            to_left += more_left
            to_right += more_right
        _put_ends(w, first, to_left, to_right, Q, R, KIND)


# ── Backward, first dq: a program per block of queries and head ─────────────────────────────────────────────────────────────────


@triton.jit
def _dq_run(
    state, q, do, k, v, extra, dw, dtable, rows, shift, less, first, last, full, past, K,
    KIND: tl.constexpr, MASKED: tl.constexpr, NEAR: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """shift: lse less the edge of the table; less: delta less the edge of dw."""
    dq, to_left, to_right = state
    for i in tl.range(first, last, num_stages=1 if NEAR else None):
        j = i
        if MASKED:
            j = i + tl.where(i >= full, past - full, 0)
        at = j * STEP
        k_pos = at + tl.arange(0, STEP)
        rel, seen = _relation(rows, k_pos, KIND, MASKED, False)
        key = _tile(k.at, at, k.n, K, KIND.D, STEP, KIND.BLOCK_D, MASKED)
        value = _tile(v.at, at, v.n, K, KIND.E, STEP, KIND.BLOCK_E, MASKED)
        s = tl.dot(q, tl.trans(key), input_precision="ieee")
        dp = tl.dot(do, tl.trans(value), input_precision="ieee")
        s = _scores(s, extra, rows, k_pos, rel, seen, K, KIND, NEAR, False)
        p = _power(s, shift[:, None], extra, KIND, NEAR)
        if MASKED:
            p = tl.where(seen, p, 0.0)
        if NEAR and KIND.WEIGHTS:
            dp += _gather(dw, rows, rel, seen, extra.left, extra.right, False)
        ds = p * (dp - less[:, None])
        if KIND.TABLE_GRAD and NEAR:
            more_left, more_right = _spread(dtable, ds, rows, rel, seen, extra, KIND)
            to_left += more_left
            to_right += more_right
        elif KIND.TABLE_GRAD:
            to_left += tl.sum(ds, 1)
        dq = tl.dot(ds.to(key.dtype), key, dq, input_precision="ieee")
    return dq, to_left, to_right


@triton.jit(do_not_specialize=["q_start", "left", "right"])
def _dq(  # noqa: PLR0915
    q, k, v, o, do, dq, lse, stats, spans, bounds, bounds_b, bias, bias_b, bias_g, slope, table, w, dw, dtable, start,
    B, H, Q, K, q_start, left, right, scale, score_scale,
    KIND: tl.constexpr,
):  # fmt: skip
    """Also delta, and for the keys beyond the band lse and delta less its edges: then the other kernel need not know of those."""
    m = tl.cdiv(Q, KIND.BLOCK_Q)
    block = m - 1 - tl.program_id(0) % m
    bh = tl.cast(tl.program_id(0) // m, tl.int64)
    b, h = bh // H, bh % H
    g = h // KIND.GROUP
    first = block * KIND.BLOCK_Q
    start = _start(start, q_start, b, KIND)
    rows = _rows(spans, b, first, start, Q, KIND, KIND.BLOCK_Q)
    k = _Matrix(k.at + b * k.b + g * k.h, k.b, k.h, k.n)
    v = _Matrix(v.at + b * v.b + g * v.h, v.b, v.h, v.n)
    extra = _extra(scale, bias, bias_b, bias_g, slope, table, left, right, b, g, h, KIND)
    dw = _head(dw, b, h, KIND.WEIGHTS)
    a, full, past, d = _bounds(bounds, bounds_b, b, block)
    R = left + right + 1

    pull = _tile(do.at + b * do.b + h * do.h, first, do.n, Q, KIND.E, KIND.BLOCK_Q, KIND.BLOCK_E, True)
    out = _tile(o + (b * Q * H + h) * KIND.E, first, H * KIND.E, Q, KIND.E, KIND.BLOCK_Q, KIND.BLOCK_E, True)
    delta = tl.sum(pull.to(tl.float32) * out.to(tl.float32), 1)
    if KIND.WEIGHTS:
        delta += _delta_of_band(w + bh * Q * R, dw, first, Q, R, KIND)
    at = first + tl.arange(0, KIND.BLOCK_Q)
    inside = at < Q
    shift = tl.load(lse + bh * Q + at, mask=inside, other=0.0)
    size = tl.cast(B, tl.int64) * H * Q
    stats += bh * Q + at
    tl.store(stats, delta, mask=inside)
    query = _tile(q.at + b * q.b + h * q.h, first, q.n, Q, KIND.D, KIND.BLOCK_Q, KIND.BLOCK_D, True)

    STEP: tl.constexpr = KIND.BLOCK_K
    zero = _zero(KIND.BLOCK_Q)
    state = (_zeros(KIND.BLOCK_Q, KIND.BLOCK_D), zero, zero)
    if not KIND.TABLE and not KIND.WEIGHTS:
        state = _dq_run(state, query, pull, k, v, extra, dw, dtable, rows, shift, delta,
                        a, d - (past - full), full, past, K, KIND, True, False, STEP)  # fmt: skip
        state = _dq_run(state, query, pull, k, v, extra, dw, dtable, rows, shift, delta,
                        full, past, 0, 0, K, KIND, False, False, STEP)  # fmt: skip
    else:
        FINE: tl.constexpr = KIND.BLOCK_K // KIND.NEAR
        if KIND.TABLE_GRAD:
            dtable += bh * Q * R
        near, far = _near(start + first, left, right, a, full, past, d, KIND.BLOCK_Q, KIND.BLOCK_K, KIND, False)
        shift_end, delta_end = _less_edge(shift, delta, extra.table, dw, first, 0, Q, KIND)
        tl.store(stats + size, shift_end, mask=inside)
        tl.store(stats + 2 * size, delta_end, mask=inside)
        state = _dq_run(state, query, pull, k, v, extra, dw, dtable, rows, shift_end, delta_end,
                        a, tl.minimum(full, near), 0, 0, K, KIND, True, False, STEP)  # fmt: skip
        state = _dq_run(state, query, pull, k, v, extra, dw, dtable, rows, shift_end, delta_end,
                        full, near, 0, 0, K, KIND, False, False, STEP)  # fmt: skip
        state = _dq_run(state, query, pull, k, v, extra, dw, dtable, rows, shift, delta,
                        near * FINE, far * FINE, 0, 0, K, KIND, True, True, KIND.NEAR)  # fmt: skip
        if not KIND.CAUSAL:
            shift_end, delta_end = _less_edge(shift, delta, extra.table, dw, first, R - 1, Q, KIND)
            tl.store(stats + 3 * size, shift_end, mask=inside)
            tl.store(stats + 4 * size, delta_end, mask=inside)
            grad, to_left, to_right = state
            state = (grad, to_right, to_left)  # a run beyond the band adds to the second: now that is the right end
            state = _dq_run(state, query, pull, k, v, extra, dw, dtable, rows, shift_end, delta_end,
                            far, past, 0, 0, K, KIND, False, False, STEP)  # fmt: skip
            state = _dq_run(state, query, pull, k, v, extra, dw, dtable, rows, shift_end, delta_end,
                            tl.maximum(far, past), d, 0, 0, K, KIND, True, False, STEP)  # fmt: skip
            grad, to_right, to_left = state
            state = (grad, to_left, to_right)
        if KIND.TABLE_GRAD:
            _, to_left, to_right = state
            _put_ends(dtable, first, to_left, to_right, Q, R, KIND)
    grad, _, _ = state
    _put(dq + (b * Q * H + h) * KIND.D, first, H * KIND.D, Q, grad * score_scale, KIND.D, KIND.BLOCK_Q, KIND.BLOCK_D)


@triton.jit
def _less_edge(shift, delta, table, dw, first, r, Q, KIND: tl.constexpr):
    if KIND.TABLE:
        shift = shift - _column(table, first, r, Q, KIND) * LOG2E
    if KIND.WEIGHTS:
        delta = delta - _column(dw, first, r, Q, KIND)
    return shift, delta


@triton.jit
def _delta_of_band(w, dw, first, Q, R, KIND: tl.constexpr):
    """Σ_r dw·w."""
    total = _zero(KIND.BLOCK_Q)
    row = tl.arange(0, KIND.BLOCK_Q)[:, None]
    for r0 in tl.range(0, R, 32):
        r = r0 + tl.arange(0, 32)[None, :]
        inside = (first + row < Q) & (r < R)
        weight = tl.load(w + tl.cast(first, tl.int64) * R + (row * R + r), mask=inside, other=0.0)
        grad = tl.load(dw.at + tl.cast(first, tl.int64) * dw.q + (row * dw.q + r * dw.r), mask=inside, other=0.0)
        total += tl.sum(weight.to(tl.float32) * grad.to(tl.float32), 1)
    return total


# ── Backward, then dk and dv: a program per block of keys and key/value head, all the heads that read it in turn ────────────────


@triton.jit
def _dkv_run(
    state, k, v, q, do, lse, delta, spans, extra, dw, b, at, start, first, last, full, past, Q, K,
    KIND: tl.constexpr, MASKED: tl.constexpr, NEAR: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """The scores lie with keys down and queries across: their transposes are what is multiplied."""
    dk, dv, dbias = state
    k_pos = at + tl.arange(0, KIND.BLOCK_K)
    for i in tl.range(first, last, num_stages=1 if NEAR else None):
        j = i
        if MASKED:
            j = i + tl.where(i >= full, past - full, 0)
        q0 = j * STEP
        query = _tile(q.at, q0, q.n, Q, KIND.D, STEP, KIND.BLOCK_D, MASKED)
        pull = _tile(do.at, q0, do.n, Q, KIND.E, STEP, KIND.BLOCK_E, MASKED)
        row = q0 + tl.arange(0, STEP)
        if MASKED:
            shift = tl.load(lse + row, mask=row < Q, other=0.0)
            less = tl.load(delta + row, mask=row < Q, other=0.0)
            rows = _rows(spans, b, q0, start, Q, KIND, STEP)
        else:
            shift = tl.load(lse + row)
            less = tl.load(delta + row)
            rows = _Rows(row, row, row, row, start + row, row, q0)
        rel, seen = _relation(rows, k_pos, KIND, MASKED, True)
        s = tl.dot(k, tl.trans(query), input_precision="ieee")
        s = _scores(s, extra, rows, k_pos, rel, seen, K, KIND, NEAR, True)
        p = _power(s, shift[None, :], extra, KIND, NEAR)
        if MASKED:
            p = tl.where(seen, p, 0.0)
        dv = tl.dot(p.to(pull.dtype), pull, dv, input_precision="ieee")
        dp = tl.dot(v, tl.trans(pull), input_precision="ieee")
        if NEAR and KIND.WEIGHTS:
            dp += _gather(dw, rows, rel, seen, extra.left, extra.right, True)
        ds = p * (dp - less[None, :])
        if KIND.BIAS_GRAD:
            dbias += tl.sum(ds, 1)
        dk = tl.dot(ds.to(query.dtype), query, dk, input_precision="ieee")
    return dk, dv, dbias


@triton.jit(do_not_specialize=["q_start", "left", "right"])
def _dkv(
    q, k, v, do, dk, dv, dbias, lse, stats, spans, bounds, bounds_b, bias, bias_b, bias_g, slope, table, dw, start,
    B, H, Q, K, q_start, left, right, scale, score_scale,
    KIND: tl.constexpr,
):  # fmt: skip
    n = tl.cdiv(K, KIND.BLOCK_K)
    block = tl.program_id(0) % n
    bg = tl.cast(tl.program_id(0) // n, tl.int64)
    G = H // KIND.GROUP
    b, g = bg // G, bg % G
    at = block * KIND.BLOCK_K
    start = _start(start, q_start, b, KIND)
    a, full, past, d = _bounds(bounds, bounds_b, b, block)
    key = _tile(k.at + b * k.b + g * k.h, at, k.n, K, KIND.D, KIND.BLOCK_K, KIND.BLOCK_D, True)
    value = _tile(v.at + b * v.b + g * v.h, at, v.n, K, KIND.E, KIND.BLOCK_K, KIND.BLOCK_E, True)
    size = tl.cast(B, tl.int64) * H * Q

    STEP: tl.constexpr = KIND.BLOCK_Q
    state = (_zeros(KIND.BLOCK_K, KIND.BLOCK_D), _zeros(KIND.BLOCK_K, KIND.BLOCK_E), _zero(KIND.BLOCK_K))
    for turn in tl.range(0, KIND.GROUP):
        h = g * KIND.GROUP + turn
        extra = _extra(scale, bias, bias_b, bias_g, slope, table, left, right, b, g, h, KIND)
        dw_h = _head(dw, b, h, KIND.WEIGHTS)
        q_h = _Matrix(q.at + b * q.b + h * q.h, q.b, q.h, q.n)
        do_h = _Matrix(do.at + b * do.b + h * do.h, do.b, do.h, do.n)
        lse_h = lse + (b * H + h) * Q
        stats_h = stats + (b * H + h) * Q
        if not KIND.TABLE and not KIND.WEIGHTS:
            state = _dkv_run(state, key, value, q_h, do_h, lse_h, stats_h, spans, extra, dw_h, b, at, start,
                             a, d - (past - full), full, past, Q, K, KIND, True, False, STEP)  # fmt: skip
            state = _dkv_run(state, key, value, q_h, do_h, lse_h, stats_h, spans, extra, dw_h, b, at, start,
                             full, past, 0, 0, Q, K, KIND, False, False, STEP)  # fmt: skip
        else:
            FINE: tl.constexpr = KIND.BLOCK_Q // KIND.NEAR
            near, far = _near(at - start, left, right, a, full, past, d, KIND.BLOCK_K, KIND.BLOCK_Q, KIND, True)
            if not KIND.CAUSAL:
                lse_end, delta_end = stats_h + 3 * size, stats_h + 4 * size
                state = _dkv_run(state, key, value, q_h, do_h, lse_end, delta_end, spans, extra, dw_h, b, at, start,
                                 a, tl.minimum(full, near), 0, 0, Q, K, KIND, True, False, STEP)  # fmt: skip
                state = _dkv_run(state, key, value, q_h, do_h, lse_end, delta_end, spans, extra, dw_h, b, at, start,
                                 full, near, 0, 0, Q, K, KIND, False, False, STEP)  # fmt: skip
            lse_end, delta_end = stats_h + size, stats_h + 2 * size
            state = _dkv_run(state, key, value, q_h, do_h, lse_end, delta_end, spans, extra, dw_h, b, at, start,
                             tl.maximum(far, past), d, 0, 0, Q, K, KIND, True, False, STEP)  # fmt: skip
            state = _dkv_run(state, key, value, q_h, do_h, lse_h, stats_h, spans, extra, dw_h, b, at, start,
                             near * FINE, far * FINE, 0, 0, Q, K, KIND, True, True, KIND.NEAR)  # fmt: skip
            state = _dkv_run(state, key, value, q_h, do_h, lse_end, delta_end, spans, extra, dw_h, b, at, start,
                             far, past, 0, 0, Q, K, KIND, False, False, STEP)  # fmt: skip
    grad_k, grad_v, grad_bias = state
    _put(dk + (b * K * G + g) * KIND.D, at, G * KIND.D, K, grad_k * score_scale, KIND.D, KIND.BLOCK_K, KIND.BLOCK_D)
    _put(dv + (b * K * G + g) * KIND.E, at, G * KIND.E, K, grad_v, KIND.E, KIND.BLOCK_K, KIND.BLOCK_E)
    if KIND.BIAS_GRAD:
        k_pos = at + tl.arange(0, KIND.BLOCK_K)
        tl.store(dbias + bg * K + k_pos, grad_bias, mask=k_pos < K)


# ── As operations of torch ──────────────────────────────────────────────────────────────────────────────────────────────────────


class _Given(NamedTuple):
    """The arguments of both operations, in the order of their schema."""

    q_BHQD: Tensor
    k_BGKD: Tensor
    v_BGKE: Tensor
    key_bias_BGK: Tensor | None
    table_BHQR: Tensor | None
    slope_H: Tensor | None
    start_B: Tensor | None
    lo_bQ: Tensor
    hi_bQ: Tensor
    hole_lo_bQ: Tensor | None
    hole_hi_bQ: Tensor | None
    forward_bm4: Tensor
    dq_bm4: Tensor | None
    dkv_bn4: Tensor | None
    scale: float
    q_start: int
    left: int
    right: int
    weights: bool
    causal: bool
    tiles: list[int]

    @property
    def columns(self) -> int:
        return self.left + self.right + 1

    @property
    def banded(self) -> bool:
        return self.table_BHQR is not None or self.weights

    def tile(self, which: int) -> Tile:
        queries, keys, warps, stages, near, registers = self.tiles[6 * which : 6 * which + 6]
        return Tile(queries, keys, warps, stages, near, registers or None)

    def spans(self) -> _Spans:
        row = self.lo_bQ.stride(0) if len(self.lo_bQ) > 1 else 0
        return _Spans(self.lo_bQ, self.hi_bQ, self.hole_lo_bQ, self.hole_hi_bQ, row)

    def extra(self) -> tuple[Any, ...]:
        """bias and its strides, slope and table. Triton cannot return None: something stands in for what there is not."""
        bias = self.key_bias_BGK
        absent = self.lo_bQ
        return (
            *((absent, 0, 0) if bias is None else (bias, bias.stride(0), bias.stride(1))),
            absent if self.slope_H is None else self.slope_H,
            _table(self.table_BHQR, absent),
        )

    def kind(self, tile: Tile, weights: bool, table_grad: bool = False, bias_grad: bool = False) -> _Kind:
        D, E = self.q_BHQD.shape[3], self.v_BGKE.shape[3]
        return _Kind(
            D,
            E,
            max(16, triton.next_power_of_2(D)),
            max(16, triton.next_power_of_2(E)),
            tile.queries,
            tile.keys,
            tile.near,
            self.q_BHQD.shape[1] // self.k_BGKD.shape[1],
            # A negative scale would turn the largest q·k into the smallest score.
            self.key_bias_BGK is None and self.slope_H is None and self.scale > 0,
            self.key_bias_BGK is not None,
            self.slope_H is not None,
            self.hole_lo_bQ is not None,
            self.table_BHQR is not None,
            weights,
            self.causal,
            self.start_B is not None,
            table_grad,
            bias_grad,
        )


_SCHEMA = (
    "Tensor q, Tensor k, Tensor v, Tensor? key_bias, Tensor? table, Tensor? slope, Tensor? start, "
    "Tensor lo, Tensor hi, Tensor? hole_lo, Tensor? hole_hi, Tensor forward_bounds, Tensor? dq_bounds, Tensor? dkv_bounds, "
    "float scale, SymInt q_start, int left, int right, bool weights, bool causal, int[] tiles"
)


def _matrix(x: Tensor) -> _Matrix:
    return _Matrix(x, *x.stride()[:3])


def _table(x: Tensor | None, absent: Tensor) -> _Table:
    return _Table(absent, 0, 0, 0, 0) if x is None else _Table(x, *x.stride())


def _with_stride(x_bm4: Tensor) -> tuple[Tensor, int]:
    return x_bm4, x_bm4.stride(0) if len(x_bm4) > 1 else 0


def _as_rows(like: Tensor, heads: int, n: int, w: int) -> Tensor:
    """B,H,n,w that lies in memory as B,n,H,w: what the projections around the attention read and write."""
    return like.new_empty(len(like), n, heads, w).transpose(1, 2)


@torch.library.custom_op("firth::flash", mutates_args=(), schema=f"({_SCHEMA}) -> (Tensor, Tensor, Tensor)")
def _flash(*args: Any) -> tuple[Tensor, Tensor, Tensor]:
    x = _Given(*args)
    o_BHQE, lse_BHQ, w_BHQR = _outputs(x)
    if x.weights:
        w_BHQR.zero_()
    (B, H, Q, _), K, tile = x.q_BHQD.shape, x.k_BGKD.shape[2], x.tile(0)
    with torch.cuda.device_of(x.q_BHQD):
        _forward[(triton.cdiv(Q, tile.queries) * B * H,)](
            _matrix(x.q_BHQD),
            _matrix(x.k_BGKD),
            _matrix(x.v_BGKE),
            o_BHQE,
            lse_BHQ,
            x.spans(),
            *_with_stride(x.forward_bm4),
            *x.extra(),
            w_BHQR,
            x.start_B,
            H,
            Q,
            K,
            x.q_start,
            x.left,
            x.right,
            x.scale * LOG2E.value,
            x.kind(tile, x.weights),
            num_warps=tile.warps,
            num_stages=tile.stages,
            maxnreg=tile.registers,
        )
    return o_BHQE, lse_BHQ, w_BHQR


def _outputs(x: _Given) -> tuple[Tensor, Tensor, Tensor]:
    B, H, Q, _ = x.q_BHQD.shape
    o_BHQE = _as_rows(x.q_BHQD, H, Q, x.v_BGKE.shape[3])
    lse_BHQ = x.q_BHQD.new_empty(B, H, Q, dtype=torch.float32)
    return o_BHQE, lse_BHQ, x.q_BHQD.new_empty((B, H, Q, x.columns) if x.weights else (0,))


@_flash.register_fake
def _(*args: Any) -> tuple[Tensor, Tensor, Tensor]:
    return _outputs(_Given(*args))


_GRADS = "Tensor o, Tensor lse, Tensor w, Tensor do, Tensor? dw, bool bias_grad, bool table_grad"


@torch.library.custom_op(
    "firth::flash_backward", mutates_args=(), schema=f"({_SCHEMA}, {_GRADS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
def _flash_backward(*args: Any) -> tuple[Tensor, ...]:
    x = _Given(*args[:-7])
    o_BHQE, lse_BHQ, w_BHQR, do_BHQE, dw_BHQR, bias_grad, table_grad = args[-7:]
    dq_BHQD, dk_BGKD, dv_BGKE, dbias_BGK, dtable_BHQR = grads = _gradients(x, bias_grad, table_grad)
    dtable_BHQR.zero_()
    (B, H, Q, _), (_, G, K, _) = x.q_BHQD.shape, x.k_BGKD.shape
    stats_sBHQ = lse_BHQ.new_empty((1 if not x.banded else 3 if x.causal else 5, B, H, Q))
    q, k, v, do, dw = *map(_matrix, (x.q_BHQD, x.k_BGKD, x.v_BGKE, do_BHQE)), _table(dw_BHQR, x.lo_bQ)
    numbers = (B, H, Q, K, x.q_start, x.left, x.right, x.scale * LOG2E.value, x.scale)
    weights = dw_BHQR is not None
    by_query, by_key = x.tile(1), x.tile(2)
    with torch.cuda.device_of(x.q_BHQD):
        _dq[(triton.cdiv(Q, by_query.queries) * B * H,)](
            *(q, k, v, o_BHQE, do, dq_BHQD, lse_BHQ, stats_sBHQ, x.spans(), *_with_stride(x.dq_bm4), *x.extra()),
            *(w_BHQR, dw, dtable_BHQR, x.start_B, *numbers, x.kind(by_query, weights, table_grad)),
            num_warps=by_query.warps,
            num_stages=by_query.stages,
            maxnreg=by_query.registers,
        )
        _dkv[(triton.cdiv(K, by_key.keys) * B * G,)](
            *(q, k, v, do, dk_BGKD, dv_BGKE, dbias_BGK, lse_BHQ, stats_sBHQ, x.spans(), *_with_stride(x.dkv_bn4), *x.extra()),
            *(dw, x.start_B, *numbers, x.kind(by_key, weights, bias_grad=bias_grad)),
            num_warps=by_key.warps,
            num_stages=by_key.stages,
            maxnreg=by_key.registers,
        )
    return grads


def _gradients(x: _Given, bias_grad: bool, table_grad: bool) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    (B, H, Q, D), (_, G, K, E) = x.q_BHQD.shape, x.v_BGKE.shape
    return (
        _as_rows(x.q_BHQD, H, Q, D),
        _as_rows(x.q_BHQD, G, K, D),
        _as_rows(x.q_BHQD, G, K, E),
        x.q_BHQD.new_empty((B, G, K) if bias_grad else (0,), dtype=torch.float32),
        x.q_BHQD.new_empty((B, H, Q, x.columns) if table_grad else (0,), dtype=torch.float32),
    )


@_flash_backward.register_fake
def _(*args: Any) -> tuple[Tensor, ...]:
    return _gradients(_Given(*args[:-7]), *args[-2:])


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    x = _Given(*inputs)
    _, lse_BHQ, w_BHQR = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(lse_BHQ, *(() if x.weights else (w_BHQR,)))
    ctx.tensors = _Given._fields.index("scale")
    ctx.save_for_backward(*inputs[: ctx.tensors], *output)
    ctx.numbers = inputs[ctx.tensors :]


def _derivative(ctx: Any, do_BHQE: Tensor | None, _: None, dw_BHQR: Tensor | None) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors
    x = _Given(*saved[:-3], *ctx.numbers)
    if x.dq_bm4 is None:
        raise ConfigError("the plan was made without a backward pass; blocks.plan(…, backward=True) makes one with")
    o_BHQE, lse_BHQ, w_BHQR = saved[-3:]
    do_BHQE = torch.zeros_like(o_BHQE) if do_BHQE is None else _dense_rows(do_BHQE)
    bias_grad, table_grad = ctx.needs_input_grad[3:5]
    dq, dk, dv, dbias, dtable = _flash_backward(*x, o_BHQE, lse_BHQ, w_BHQR, do_BHQE, dw_BHQR, bias_grad, table_grad)
    dtable = dtable.to(x.table_BHQR.dtype) if x.table_BHQR is not None and table_grad else None
    return dq, dk, dv, dbias if bias_grad else None, dtable, *[None] * (len(x) - 5)


_flash.register_autograd(_derivative, setup_context=_remember)


def _no_second_derivative(ctx: Any, *grads: Tensor) -> None:
    raise ConfigError('flash() has no second derivative; kernel="reference" has one')


_flash_backward.register_autograd(_no_second_derivative)
