"""The backward pass of flash.py: first dq, a program per block of queries and head, which also stores what dk and dv need; then
dk and dv, a program per block of keys and key/value head, which loops over the query heads that share it."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, index, operator, arg-type"

from __future__ import annotations

import triton
import triton.language as tl

from firth.layers.kernels.attention.pieces import (
    LOG2E,
    MatrixPointer,
    QueryRows,
    bounds_of,
    column,
    extra_of,
    gather,
    head_of,
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
        rel, seen = relation(rows, k_pos, KIND, MASKED, False)
        key = tile(k.at, at, k.n, K, KIND.D, STEP, KIND.BLOCK_D, MASKED)
        value = tile(v.at, at, v.n, K, KIND.E, STEP, KIND.BLOCK_E, MASKED)
        s = tl.dot(q, tl.trans(key), input_precision="ieee")
        dp = tl.dot(do, tl.trans(value), input_precision="ieee")
        s = scores(s, extra, rows, k_pos, rel, seen, K, KIND, NEAR, False)
        p = power(s, shift[:, None], extra, KIND, NEAR)
        if MASKED:
            p = tl.where(seen, p, 0.0)
        if NEAR and KIND.WEIGHTS:
            dp += gather(dw, rows, rel, seen, extra.left, extra.right, False)
        ds = p * (dp - less[:, None])
        if KIND.TABLE_GRAD and NEAR:
            more_left, more_right = spread(dtable, ds, rows, rel, seen, extra, KIND)
            to_left += more_left
            to_right += more_right
        elif KIND.TABLE_GRAD:
            to_left += tl.sum(ds, 1)
        dq = tl.dot(ds.to(key.dtype), key, dq, input_precision="ieee")
    return dq, to_left, to_right


@triton.jit(do_not_specialize=["q_start", "left", "right"])
def dq_kernel(  # noqa: PLR0915
    q, k, v, o, do, dq, lse, stats, spans, bounds, bounds_b, bias, bias_b, bias_g, slope, table, w, dw, dtable, start,
    B, H, Q, K, q_start, left, right, scale, score_scale,
    KIND: tl.constexpr,
):  # fmt: skip
    """Also delta, and for keys beyond the band lse and delta minus its edges, so that the other kernel can ignore them."""
    m = tl.cdiv(Q, KIND.BLOCK_Q)
    block = m - 1 - tl.program_id(0) % m
    bh = tl.cast(tl.program_id(0) // m, tl.int64)
    b, h = bh // H, bh % H
    g = h // KIND.GROUP
    first = block * KIND.BLOCK_Q
    start = start_of(start, q_start, b, KIND)
    rows = rows_of(spans, b, first, start, Q, KIND, KIND.BLOCK_Q)
    k = MatrixPointer(k.at + b * k.b + g * k.h, k.b, k.h, k.n)
    v = MatrixPointer(v.at + b * v.b + g * v.h, v.b, v.h, v.n)
    extra = extra_of(scale, bias, bias_b, bias_g, slope, table, left, right, b, g, h, KIND)
    dw = head_of(dw, b, h, KIND.WEIGHTS)
    a, full, past, d = bounds_of(bounds, bounds_b, b, block)
    R = left + right + 1

    pull = tile(do.at + b * do.b + h * do.h, first, do.n, Q, KIND.E, KIND.BLOCK_Q, KIND.BLOCK_E, True)
    out = tile(o + (b * Q * H + h) * KIND.E, first, H * KIND.E, Q, KIND.E, KIND.BLOCK_Q, KIND.BLOCK_E, True)
    delta = tl.sum(pull.to(tl.float32) * out.to(tl.float32), 1)
    if KIND.WEIGHTS:
        delta += _delta_of_band(w + bh * Q * R, dw, first, Q, R, KIND)
    at = first + tl.arange(0, KIND.BLOCK_Q)
    inside = at < Q
    shift = tl.load(lse + bh * Q + at, mask=inside, other=0.0)
    size = tl.cast(B, tl.int64) * H * Q
    stats += bh * Q + at
    tl.store(stats, delta, mask=inside)
    query = tile(q.at + b * q.b + h * q.h, first, q.n, Q, KIND.D, KIND.BLOCK_Q, KIND.BLOCK_D, True)

    STEP: tl.constexpr = KIND.BLOCK_K
    zero = zero_vector(KIND.BLOCK_Q)
    state = (zero_matrix(KIND.BLOCK_Q, KIND.BLOCK_D), zero, zero)
    if not KIND.TABLE and not KIND.WEIGHTS:
        state = _dq_run(state, query, pull, k, v, extra, dw, dtable, rows, shift, delta,
                        a, d - (past - full), full, past, K, KIND, True, False, STEP)  # fmt: skip
        state = _dq_run(state, query, pull, k, v, extra, dw, dtable, rows, shift, delta,
                        full, past, 0, 0, K, KIND, False, False, STEP)  # fmt: skip
    else:
        FINE: tl.constexpr = KIND.BLOCK_K // KIND.NEAR
        if KIND.TABLE_GRAD:
            dtable += bh * Q * R
        near, far = near_blocks(start + first, left, right, a, full, past, d, KIND.BLOCK_Q, KIND.BLOCK_K, KIND, False)
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
            state = (grad, to_right, to_left)  # a run beyond the band adds to the second entry, which is now the right end
            state = _dq_run(state, query, pull, k, v, extra, dw, dtable, rows, shift_end, delta_end,
                            far, past, 0, 0, K, KIND, False, False, STEP)  # fmt: skip
            state = _dq_run(state, query, pull, k, v, extra, dw, dtable, rows, shift_end, delta_end,
                            tl.maximum(far, past), d, 0, 0, K, KIND, True, False, STEP)  # fmt: skip
            grad, to_right, to_left = state
            state = (grad, to_left, to_right)
        if KIND.TABLE_GRAD:
            _, to_left, to_right = state
            put_ends(dtable, first, to_left, to_right, Q, R, KIND)
    grad, _, _ = state
    put(dq + (b * Q * H + h) * KIND.D, first, H * KIND.D, Q, grad * score_scale, KIND.D, KIND.BLOCK_Q, KIND.BLOCK_D)


@triton.jit
def _less_edge(shift, delta, table, dw, first, r, Q, KIND: tl.constexpr):
    if KIND.TABLE:
        shift = shift - column(table, first, r, Q, KIND) * LOG2E
    if KIND.WEIGHTS:
        delta = delta - column(dw, first, r, Q, KIND)
    return shift, delta


@triton.jit
def _delta_of_band(w, dw, first, Q, R, KIND: tl.constexpr):
    """Σ_r dw·w."""
    total = zero_vector(KIND.BLOCK_Q)
    row = tl.arange(0, KIND.BLOCK_Q)[:, None]
    for r0 in tl.range(0, R, 32):
        r = r0 + tl.arange(0, 32)[None, :]
        inside = (first + row < Q) & (r < R)
        weight = tl.load(w + tl.cast(first, tl.int64) * R + (row * R + r), mask=inside, other=0.0)
        grad = tl.load(dw.at + tl.cast(first, tl.int64) * dw.q + (row * dw.q + r * dw.r), mask=inside, other=0.0)
        total += tl.sum(weight.to(tl.float32) * grad.to(tl.float32), 1)
    return total


# Backward, then dk and dv: a program per block of keys and key/value head, looping over the query heads that share it


@triton.jit
def _dkv_run(
    state, k, v, q, do, lse, delta, spans, extra, dw, b, at, start, first, last, full, past, Q, K,
    KIND: tl.constexpr, MASKED: tl.constexpr, NEAR: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Scores have keys down and queries across: the products need their transposes."""
    dk, dv, dbias = state
    k_pos = at + tl.arange(0, KIND.BLOCK_K)
    for i in tl.range(first, last, num_stages=1 if NEAR else None):
        j = i
        if MASKED:
            j = i + tl.where(i >= full, past - full, 0)
        q0 = j * STEP
        query = tile(q.at, q0, q.n, Q, KIND.D, STEP, KIND.BLOCK_D, MASKED)
        pull = tile(do.at, q0, do.n, Q, KIND.E, STEP, KIND.BLOCK_E, MASKED)
        row = q0 + tl.arange(0, STEP)
        if MASKED:
            shift = tl.load(lse + row, mask=row < Q, other=0.0)
            less = tl.load(delta + row, mask=row < Q, other=0.0)
            rows = rows_of(spans, b, q0, start, Q, KIND, STEP)
        else:
            shift = tl.load(lse + row)
            less = tl.load(delta + row)
            rows = QueryRows(row, row, row, row, start + row, row, q0)
        rel, seen = relation(rows, k_pos, KIND, MASKED, True)
        s = tl.dot(k, tl.trans(query), input_precision="ieee")
        s = scores(s, extra, rows, k_pos, rel, seen, K, KIND, NEAR, True)
        p = power(s, shift[None, :], extra, KIND, NEAR)
        if MASKED:
            p = tl.where(seen, p, 0.0)
        dv = tl.dot(p.to(pull.dtype), pull, dv, input_precision="ieee")
        dp = tl.dot(v, tl.trans(pull), input_precision="ieee")
        if NEAR and KIND.WEIGHTS:
            dp += gather(dw, rows, rel, seen, extra.left, extra.right, True)
        ds = p * (dp - less[None, :])
        if KIND.BIAS_GRAD:
            dbias += tl.sum(ds, 1)
        dk = tl.dot(ds.to(query.dtype), query, dk, input_precision="ieee")
    return dk, dv, dbias


@triton.jit(do_not_specialize=["q_start", "left", "right"])
def dkv_kernel(
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
    start = start_of(start, q_start, b, KIND)
    a, full, past, d = bounds_of(bounds, bounds_b, b, block)
    key = tile(k.at + b * k.b + g * k.h, at, k.n, K, KIND.D, KIND.BLOCK_K, KIND.BLOCK_D, True)
    value = tile(v.at + b * v.b + g * v.h, at, v.n, K, KIND.E, KIND.BLOCK_K, KIND.BLOCK_E, True)
    size = tl.cast(B, tl.int64) * H * Q

    STEP: tl.constexpr = KIND.BLOCK_Q
    state = (zero_matrix(KIND.BLOCK_K, KIND.BLOCK_D), zero_matrix(KIND.BLOCK_K, KIND.BLOCK_E), zero_vector(KIND.BLOCK_K))
    for turn in tl.range(0, KIND.GROUP):
        h = g * KIND.GROUP + turn
        extra = extra_of(scale, bias, bias_b, bias_g, slope, table, left, right, b, g, h, KIND)
        dw_h = head_of(dw, b, h, KIND.WEIGHTS)
        q_h = MatrixPointer(q.at + b * q.b + h * q.h, q.b, q.h, q.n)
        do_h = MatrixPointer(do.at + b * do.b + h * do.h, do.b, do.h, do.n)
        lse_h = lse + (b * H + h) * Q
        stats_h = stats + (b * H + h) * Q
        if not KIND.TABLE and not KIND.WEIGHTS:
            state = _dkv_run(state, key, value, q_h, do_h, lse_h, stats_h, spans, extra, dw_h, b, at, start,
                             a, d - (past - full), full, past, Q, K, KIND, True, False, STEP)  # fmt: skip
            state = _dkv_run(state, key, value, q_h, do_h, lse_h, stats_h, spans, extra, dw_h, b, at, start,
                             full, past, 0, 0, Q, K, KIND, False, False, STEP)  # fmt: skip
        else:
            FINE: tl.constexpr = KIND.BLOCK_Q // KIND.NEAR
            near, far = near_blocks(at - start, left, right, a, full, past, d, KIND.BLOCK_K, KIND.BLOCK_Q, KIND, True)
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
    put(dk + (b * K * G + g) * KIND.D, at, G * KIND.D, K, grad_k * score_scale, KIND.D, KIND.BLOCK_K, KIND.BLOCK_D)
    put(dv + (b * K * G + g) * KIND.E, at, G * KIND.E, K, grad_v, KIND.E, KIND.BLOCK_K, KIND.BLOCK_E)
    if KIND.BIAS_GRAD:
        k_pos = at + tl.arange(0, KIND.BLOCK_K)
        tl.store(dbias + bg * K + k_pos, grad_bias, mask=k_pos < K)
