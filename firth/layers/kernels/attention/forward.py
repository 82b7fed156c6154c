"""The forward pass of flash.py: a program per block of queries and head."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, index, operator, arg-type"

from __future__ import annotations

import triton
import triton.language as tl

from firth.layers.kernels.attention.pieces import (
    LOG2E,
    MatrixPointer,
    bounds_of,
    column,
    extra_of,
    near_blocks,
    power,
    put,
    put_ends,
    relation,
    rows_of,
    scores,
    spread,
    start_of,
    tile,
    zero_matrix,
    zero_vector,
)


@triton.jit
def _forward_run(
    state, q, k, v, extra, rows, edge, first, last, full, past, K,
    KIND: tl.constexpr, MASKED: tl.constexpr, NEAR: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """edge: the term that the band adds to the whole row."""
    acc, total, top = state
    for i in tl.range(first, last, num_stages=1 if NEAR else None):
        j = i
        if MASKED:
            j = i + tl.where(i >= full, past - full, 0)
        at = j * STEP
        k_pos = at + tl.arange(0, STEP)
        rel, seen = relation(rows, k_pos, KIND, MASKED, False)
        key = tile(k.at, at, k.n, K, KIND.D, STEP, KIND.BLOCK_D, MASKED)
        s = tl.dot(q, tl.trans(key), input_precision="ieee")
        s = scores(s, extra, rows, k_pos, rel, seen, K, KIND, NEAR, False)
        if MASKED:
            s = tl.where(seen, s, float("-inf"))
        highest = tl.max(s, 1)
        if KIND.FOLD and not NEAR:
            highest = highest * extra.scale
        risen = tl.maximum(top, highest + edge)
        # Nothing seen so far, or only −inf: −inf − −inf would be NaN, although other keys may follow.
        base = tl.where(risen == float("-inf"), 0.0, risen)
        p = power(s, (base - edge)[:, None], extra, KIND, NEAR)
        shrink = tl.exp2(top - base)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        value = tile(v.at, at, v.n, K, KIND.E, STEP, KIND.BLOCK_E, MASKED)
        acc = tl.dot(p.to(value.dtype), value, acc, input_precision="ieee")
        top = risen
    return acc, total, top


@triton.jit(do_not_specialize=["q_start", "left", "right"])
def forward_kernel(  # noqa: PLR0915
    q, k, v, o, lse, spans, bounds, bounds_b, bias, bias_b, bias_g, slope, table, w, start,
    H, Q, K, q_start, left, right, scale,
    KIND: tl.constexpr,
):  # fmt: skip
    m = tl.cdiv(Q, KIND.BLOCK_Q)
    block = m - 1 - tl.program_id(0) % m  # under a causal mask the last blocks are the longest, so they start first
    bh = tl.cast(tl.program_id(0) // m, tl.int64)
    b, h = bh // H, bh % H
    g = h // KIND.GROUP
    first = block * KIND.BLOCK_Q
    start = start_of(start, q_start, b, KIND)
    rows = rows_of(spans, b, first, start, Q, KIND, KIND.BLOCK_Q)
    k = MatrixPointer(k.at + b * k.b + g * k.h, k.b, k.h, k.n)
    v = MatrixPointer(v.at + b * v.b + g * v.h, v.b, v.h, v.n)
    extra = extra_of(scale, bias, bias_b, bias_g, slope, table, left, right, b, g, h, KIND)
    a, full, past, d = bounds_of(bounds, bounds_b, b, block)
    query = tile(q.at + b * q.b + h * q.h, first, q.n, Q, KIND.D, KIND.BLOCK_Q, KIND.BLOCK_D, True)

    STEP: tl.constexpr = KIND.BLOCK_K
    zero = zero_vector(KIND.BLOCK_Q)
    state = (zero_matrix(KIND.BLOCK_Q, KIND.BLOCK_E), zero, zero - float("inf"))
    if not KIND.TABLE and not KIND.WEIGHTS:
        state = _forward_run(state, query, k, v, extra, rows, zero, a, d - (past - full), full, past, K, KIND, True, False, STEP)
        state = _forward_run(state, query, k, v, extra, rows, zero, full, past, 0, 0, K, KIND, False, False, STEP)
        acc, total, top = state
    else:
        R = left + right + 1
        FINE: tl.constexpr = KIND.BLOCK_K // KIND.NEAR
        near, far = near_blocks(start + first, left, right, a, full, past, d, KIND.BLOCK_Q, KIND.BLOCK_K, KIND, False)
        edge = zero
        if KIND.TABLE:
            edge = column(extra.table, first, 0, Q, KIND) * LOG2E
        state = _forward_run(state, query, k, v, extra, rows, edge, a, tl.minimum(full, near), 0, 0, K, KIND, True, False, STEP)
        state = _forward_run(state, query, k, v, extra, rows, edge, full, near, 0, 0, K, KIND, False, False, STEP)
        _, total_left, top_left = state
        state = _forward_run(state, query, k, v, extra, rows, zero, near * FINE, far * FINE, 0, 0, K, KIND, True, True, KIND.NEAR)
        acc, total, top = state
        total_right = zero
        if not KIND.CAUSAL:
            if KIND.TABLE:
                edge = column(extra.table, first, R - 1, Q, KIND) * LOG2E
            total_near, top_near = total, top
            state = (acc, zero, top)  # the right side is summed separately: its sum is the last column of w
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
    put(o + (b * Q * H + h) * KIND.E, first, H * KIND.E, Q, out, KIND.E, KIND.BLOCK_Q, KIND.BLOCK_E)
    at = first + tl.arange(0, KIND.BLOCK_Q)
    tl.store(lse + bh * Q + at, norm, mask=at < Q)

    if KIND.WEIGHTS:
        w += bh * Q * R
        to_left = total_left * tl.exp2(top_left - norm)
        to_right = total_right * tl.exp2(top - norm)
        for j in tl.range(near * FINE, far * FINE, num_stages=1):  # once more, now that the sum is known
            k_pos = j * KIND.NEAR + tl.arange(0, KIND.NEAR)
            rel, seen = relation(rows, k_pos, KIND, True, False)
            key = tile(k.at, j * KIND.NEAR, k.n, K, KIND.D, KIND.NEAR, KIND.BLOCK_D, True)
            s = tl.dot(query, tl.trans(key), input_precision="ieee")
            s = scores(s, extra, rows, k_pos, rel, seen, K, KIND, True, False)
            p = tl.where(seen, power(s, norm[:, None], extra, KIND, True), 0.0)
            more_left, more_right = spread(w, p, rows, rel, seen, extra, KIND)
            to_left += more_left
            to_right += more_right
        put_ends(w, first, to_left, to_right, Q, R, KIND)
