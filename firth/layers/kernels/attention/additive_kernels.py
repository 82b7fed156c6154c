"""The kernels of additive.py, whose equations and letters they use. S is the side that streams by, R the side that stays."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, index, operator, arg-type"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tanh(x, MODE: tl.constexpr):
    if MODE == 1:
        t = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    elif MODE == 2:
        t = tl.inline_asm_elementwise(
            "tanh.approx.bf16x2 $0, $1;", "=r,r", [x.to(tl.bfloat16)], dtype=tl.bfloat16, is_pure=True, pack=2
        ).to(tl.float32)
    else:
        small = tl.exp(-2.0 * tl.abs(x))  # never overflows, and 1 − small loses less than 1 − 2/(1 + exp(2x)) would
        t = (1.0 - small) / (1.0 + small)
        t = tl.where(x < 0, -t, t)
    return t


@triton.jit
def _span(lo, hi, at, inside, K):
    """lo and hi of some queries. A query that sees nothing becomes the empty span K, 0, which min and max ignore."""
    first = tl.load(lo + at, mask=inside, other=0)
    last = tl.load(hi + at, mask=inside, other=0)
    return tl.where(first < last, first, K), tl.where(first < last, last, 0)


@triton.jit
def forward_kernel(
    qt, kt, w, v, o, lse, lo, hi, hole_lo, hole_hi, scale, Q, K, A, E, qt_a, kt_a, ratio,
    v_b, v_g, v_k, o_b, o_h, o_q, span_b,
    M1: tl.constexpr, M2: tl.constexpr, N1: tl.constexpr, N2: tl.constexpr,
    BLOCK_E: tl.constexpr, HOLE: tl.constexpr, TANH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    M: tl.constexpr = M1 * M2
    N: tl.constexpr = N1 * N2
    h, b = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    H = tl.num_programs(1)
    # Axes M2, N2, M1, N1: the compiler lays the last ones across threads and leaves the first in registers.
    m = tl.program_id(0) * M + (tl.arange(0, M2) * M1)[:, None, None, None] + tl.arange(0, M1)[None, None, :, None]
    n_of_tile = (tl.arange(0, N2) * N1)[None, :, None, None] + tl.arange(0, N1)[None, None, None, :]
    e = tl.arange(0, BLOCK_E)
    first, last = _span(lo, hi, b * span_b + m, m < Q, K)
    if HOLE:
        gap_lo = tl.load(hole_lo + b * span_b + m, mask=m < Q, other=0)
        gap_hi = tl.load(hole_hi + b * span_b + m, mask=m < Q, other=0)
    qt += (b * H + h) * A * qt_a + m
    kt += (b * (H // ratio) + h // ratio) * A * kt_a + n_of_tile
    v += b * v_b + (h // ratio) * v_g
    w += h * A

    top = tl.full([M2, 1, M1, 1], float("-inf"), tl.float32)
    total = tl.zeros([M2, 1, M1, 1], tl.float32)
    acc = tl.zeros([M, BLOCK_E], tl.float32)
    start = tl.min(tl.ravel(first)) // N * N
    for n0 in range(start, tl.max(tl.ravel(last)), N):
        s = tl.zeros([M2, N2, M1, N1], tl.float32)
        for a in range(0, A):
            x = tl.load(qt + a * qt_a) + tl.load(kt + a * kt_a + n0)
            s += tl.load(w + a) * _tanh(x, TANH)
        n = n0 + n_of_tile
        seen = (n >= first) & (n < last)
        if HOLE:
            seen = seen & ((n < gap_lo) | (n >= gap_hi))
        s = tl.where(seen, s * scale, float("-inf"))
        new = tl.maximum(top, tl.max(tl.max(s, 1, keep_dims=True), 3, keep_dims=True))
        base = tl.where(new == float("-inf"), 0.0, new)  # no key seen so far: −inf − −inf would be NaN
        p = tl.exp(s - base)
        shrink = tl.exp(top - base)
        total = total * shrink + tl.sum(tl.sum(p, 1, keep_dims=True), 3, keep_dims=True)
        top = new
        k = n0 + tl.arange(0, N)
        v_NE = tl.load(v + k[:, None] * v_k + e[None, :], mask=(k[:, None] < K) & (e[None, :] < E), other=0.0)
        p_MN = tl.reshape(tl.permute(p.to(v_NE.dtype), (0, 2, 1, 3)), (M, N))
        acc = tl.dot(p_MN, v_NE, acc * tl.reshape(shrink, (M, 1)), input_precision=PRECISION)

    some = first < last
    if HOLE:
        some = some & ((gap_lo > first) | (gap_hi < last))
    tl.store(lse + (b * H + h) * Q + m, tl.where(some, top + tl.log(total), 0.0), mask=m < Q)
    # Decided by the spans, not by total == 0: scores that are all −inf must give 0/0.
    out = tl.where(tl.reshape(some, (M, 1)), acc / tl.reshape(total, (M, 1)), 0.0)
    q = tl.program_id(0) * M + tl.arange(0, M)
    tl.store(o + b * o_b + h * o_h + q[:, None] * o_q + e[None, :], out, mask=(q[:, None] < Q) & (e[None, :] < E))


@triton.jit
def _seen(n, m, lo, hi, hole_lo, hole_hi, HOLE: tl.constexpr):
    seen = (n >= tl.load(lo + m)) & (n < tl.load(hi + m))
    if HOLE:
        seen = seen & ((n < tl.load(hole_lo + m)) | (n >= tl.load(hole_hi + m)))
    return seen


@triton.jit
def _readers(lo, hi, n0, n1, Q, K, CHUNK: tl.constexpr):
    """The first query that may see a key of n0 … n1, and one past the last."""
    least, most = tl.full([CHUNK], Q, tl.int32), tl.zeros([CHUNK], tl.int32)
    for m0 in range(0, Q, CHUNK):
        m = m0 + tl.arange(0, CHUNK)
        first, last = _span(lo, hi, m, m < Q, K)
        sees = (first < n1) & (last > n0)
        least, most = tl.minimum(least, tl.where(sees, m, Q)), tl.maximum(most, tl.where(sees, m + 1, 0))
    return tl.min(least), tl.max(most)


@triton.jit
def delta_kernel(do, o, delta, Q, E, do_b, do_h, do_q, o_b, o_h, o_q, M: tl.constexpr, BLOCK_E: tl.constexpr):
    h, b = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    m, e = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, BLOCK_E)
    inside = (m[:, None] < Q) & (e[None, :] < E)
    do_ME = tl.load(do + b * do_b + h * do_h + m[:, None] * do_q + e[None, :], mask=inside, other=0.0).to(tl.float32)
    o_ME = tl.load(o + b * o_b + h * o_h + m[:, None] * o_q + e[None, :], mask=inside, other=0.0).to(tl.float32)
    tl.store(delta + (b * tl.num_programs(1) + h) * Q + m, tl.sum(do_ME * o_ME, 1), mask=m < Q)


# Axes of a backward tile: S2, R2, A1, S1, R1, A2. The compiler lays the last ones across threads (32 · warps of them) and leaves
# the first in registers. So Σ_a is a sum in registers and a few shuffles, and a sum over S or R, kept apart by thread
# until the loop has ended, needs none; and t stays where it is from the score to the derivative.


@triton.jit
def _streamed(S1: tl.constexpr, S2: tl.constexpr):
    return (tl.arange(0, S2) * S1)[:, None, None, None, None, None] + tl.arange(0, S1)[None, None, None, :, None, None]


@triton.jit
def _kept(R1: tl.constexpr, R2: tl.constexpr):
    return (tl.arange(0, R2) * R1)[None, :, None, None, None, None] + tl.arange(0, R1)[None, None, None, None, :, None]


@triton.jit
def _channel(A1: tl.constexpr, A2: tl.constexpr):
    return tl.arange(0, A1)[None, None, :, None, None, None] + (tl.arange(0, A2) * A1)[None, None, None, None, None, :]


@triton.jit
def _rows(x, at, stride, end, e, E):
    return tl.load(x + at[:, None] * stride + e[None, :], mask=(at[:, None] < end) & (e[None, :] < E), other=0.0)


# Two traps, both about which layout the compiler gives to a tile. Through reshape and permute alone the layout of a load or of a
# dot would spread to it; it ends at an added axis. And what there is once for a pair keeps the axis A2 all the same: without
# it its layout would be another, and rather than move the sums the compiler would make every tanh again in that layout.


@triton.jit
def _as_streamed(x_SA, S1: tl.constexpr, S2: tl.constexpr, A1: tl.constexpr, A2: tl.constexpr):
    x = tl.permute(tl.reshape(x_SA, (S2, S1, A2, A1)), (0, 3, 1, 2))
    return x[:, None, :, :, None, :].to(tl.float32)


@triton.jit
def _as_kept(x_RA, R1: tl.constexpr, R2: tl.constexpr, A1: tl.constexpr, A2: tl.constexpr):
    x = tl.permute(tl.reshape(x_RA, (R2, R1, A2, A1)), (0, 3, 1, 2))
    return x[None, :, :, None, :, :].to(tl.float32)


@triton.jit
def _as_pairs(x_RS, S1: tl.constexpr, S2: tl.constexpr, R1: tl.constexpr, R2: tl.constexpr, A2: tl.constexpr):
    x = tl.permute(tl.reshape(x_RS, (R2, R1, S2, S1)), (2, 0, 3, 1))
    return tl.broadcast_to(x[:, :, None, :, :, None], (S2, R2, 1, S1, R1, A2))


@triton.jit
def _over_channels(x, S1: tl.constexpr, S2: tl.constexpr, R1: tl.constexpr, R2: tl.constexpr, A2: tl.constexpr):
    return tl.broadcast_to(tl.sum(tl.sum(x, 2, keep_dims=True), 5, keep_dims=True), (S2, R2, 1, S1, R1, A2))


@triton.jit
def _over_streamed(x):
    return tl.sum(tl.sum(x, 0, keep_dims=True), 3, keep_dims=True)


@triton.jit
def _over_kept(x):
    return tl.sum(tl.sum(x, 1, keep_dims=True), 4, keep_dims=True)


@triton.jit
def dq_kernel(
    q, k, w, v, do, lse, delta, dq, dw, lo, hi, hole_lo, hole_hi, scale, Q, K, A, E, ratio,
    q_b, q_h, q_q, k_b, k_g, k_k, v_b, v_g, v_k, do_b, do_h, do_q, dq_b, dq_h, dq_q, span_b,
    S1: tl.constexpr, S2: tl.constexpr, R1: tl.constexpr, R2: tl.constexpr, A1: tl.constexpr, A2: tl.constexpr,
    STAGES: tl.constexpr, BLOCK_E: tl.constexpr, HOLE: tl.constexpr, TANH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dq of R queries and their part of dw: the keys stream by."""
    S: tl.constexpr = S1 * S2
    R: tl.constexpr = R1 * R2
    i, h, b = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    H = tl.num_programs(1)
    g = h // ratio
    m, a, e = i * R + _kept(R1, R2), _channel(A1, A2), tl.arange(0, BLOCK_E)
    w_a = tl.load(w + h * A + a, mask=a < A, other=0.0)
    q_RA = _as_kept(_rows(q + b * q_b + h * q_h, i * R + tl.arange(0, R), q_q, Q, tl.arange(0, A1 * A2), A), R1, R2, A1, A2)
    do_RE = _rows(do + b * do_b + h * do_h, i * R + tl.arange(0, R), do_q, Q, e, E)
    lse_R = tl.load(lse + (b * H + h) * Q + m, mask=m < Q, other=0.0)
    delta_R = tl.load(delta + (b * H + h) * Q + m, mask=m < Q, other=0.0)
    first, last = _span(lo, hi, b * span_b + m, m < Q, K)
    if HOLE:
        gap_lo = tl.load(hole_lo + b * span_b + m, mask=m < Q, other=0)
        gap_hi = tl.load(hole_hi + b * span_b + m, mask=m < Q, other=0)
    k += b * k_b + g * k_g
    v += b * v_b + g * v_g

    acc_dq = tl.zeros([1, R2, A1, S1, R1, A2], tl.float32)
    acc_dw = tl.zeros([1, R2, A1, S1, R1, A2], tl.float32)
    start = tl.min(tl.ravel(first)) // S * S
    for n0 in tl.range(start, tl.max(tl.ravel(last)), S, num_stages=STAGES):
        n = n0 + _streamed(S1, S2)
        k_SA = _as_streamed(_rows(k, n0 + tl.arange(0, S), k_k, K, tl.arange(0, A1 * A2), A), S1, S2, A1, A2)
        t = _tanh(q_RA + k_SA, TANH)
        s = _over_channels(t * w_a, S1, S2, R1, R2, A2) * scale
        dp = tl.dot(do_RE, tl.trans(_rows(v, n0 + tl.arange(0, S), v_k, K, e, E)), input_precision=PRECISION)
        dp = _as_pairs(dp, S1, S2, R1, R2, A2)
        seen = (n >= first) & (n < last)
        if HOLE:
            seen = seen & ((n < gap_lo) | (n >= gap_hi))
        ds = tl.where(seen, tl.exp(s - lse_R) * (dp - delta_R), 0.0)
        acc_dq += tl.sum(ds * (1.0 - t * t), 0, keep_dims=True)
        acc_dw += tl.sum(ds * t, 0, keep_dims=True)

    dq_RA = _over_streamed(acc_dq) * (w_a * scale)
    tl.store(dq + b * dq_b + h * dq_h + m * dq_q + a, dq_RA, mask=(m < Q) & (a < A))
    dw_A = _over_kept(_over_streamed(acc_dw))
    tl.store(dw + ((b * H + h) * tl.num_programs(0) + i) * A + a, dw_A, mask=a < A)


@triton.jit
def dkv_kernel(
    q, k, w, v, do, lse, delta, dk, dv, dq, dw, lo, hi, hole_lo, hole_hi, scale, Q, K, A, E, ratio,
    q_b, q_h, q_q, k_b, k_g, k_k, v_b, v_g, v_k, do_b, do_h, do_q, dk_b, dk_g, dk_k, dv_b, dv_g, dv_k, span_b,
    S1: tl.constexpr, S2: tl.constexpr, R1: tl.constexpr, R2: tl.constexpr, A1: tl.constexpr, A2: tl.constexpr,
    STAGES: tl.constexpr, BLOCK_E: tl.constexpr, HOLE: tl.constexpr, TANH: tl.constexpr, PRECISION: tl.constexpr,
    ATOMIC: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """dk and dv of R keys: the queries of all heads that share them stream by."""
    S: tl.constexpr = S1 * S2
    R: tl.constexpr = R1 * R2
    i, g, b = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    H = tl.num_programs(1) * ratio
    n, a, e = i * R + _kept(R1, R2), _channel(A1, A2), tl.arange(0, BLOCK_E)
    k_RA = _as_kept(_rows(k + b * k_b + g * k_g, i * R + tl.arange(0, R), k_k, K, tl.arange(0, A1 * A2), A), R1, R2, A1, A2)
    v_RE = _rows(v + b * v_b + g * v_g, i * R + tl.arange(0, R), v_k, K, e, E)
    lo += b * span_b
    hi += b * span_b
    hole_lo += b * span_b
    hole_hi += b * span_b

    begin, end = _readers(lo, hi, i * R, (i + 1) * R, Q, K, CHUNK)
    acc_dk = tl.zeros([1, R2, A1, S1, R1, A2], tl.float32)
    acc_dv = tl.zeros([R, BLOCK_E], tl.float32)
    for h in range(g * ratio, (g + 1) * ratio):
        w_a = tl.load(w + h * A + a, mask=a < A, other=0.0)
        acc_h = tl.zeros([1, R2, A1, S1, R1, A2], tl.float32)
        acc_dw = tl.zeros([1, R2, A1, S1, R1, A2], tl.float32)
        row = (b * H + h) * Q
        for m0 in tl.range(begin // S * S, end, S, num_stages=STAGES):
            m = m0 + _streamed(S1, S2)
            there = tl.minimum(m, Q - 1)  # cheaper than a mask for each load
            q_SA = _rows(q + b * q_b + h * q_h, m0 + tl.arange(0, S), q_q, Q, tl.arange(0, A1 * A2), A)
            do_SE = _rows(do + b * do_b + h * do_h, m0 + tl.arange(0, S), do_q, Q, e, E)
            t = _tanh(_as_streamed(q_SA, S1, S2, A1, A2) + k_RA, TANH)
            s = _over_channels(t * w_a, S1, S2, R1, R2, A2) * scale
            dp = tl.dot(v_RE, tl.trans(do_SE), input_precision=PRECISION)
            dp = _as_pairs(dp, S1, S2, R1, R2, A2)
            seen = _seen(n, there, lo, hi, hole_lo, hole_hi, HOLE) & (m < Q)
            p = tl.where(seen, tl.exp(s - tl.load(lse + row + there)), 0.0)
            ds = tl.where(seen, p * (dp - tl.load(delta + row + there)), 0.0)
            u = ds * (1.0 - t * t)
            acc_h += tl.sum(u, 0, keep_dims=True)
            # p stands there A2 times; once is enough, and a dot with zeros costs less than to gather it.
            once = tl.where(tl.arange(0, A2)[None, None, None, None, None, :] == 0, p, 0.0).to(do_SE.dtype)
            p_RS = tl.reshape(tl.permute(once, (1, 4, 0, 3, 2, 5)), (R, S * A2))
            do_wide = tl.reshape(tl.broadcast_to(do_SE[:, None, :], (S, A2, BLOCK_E)), (S * A2, BLOCK_E))
            acc_dv = tl.dot(p_RS, do_wide, acc_dv, input_precision=PRECISION)
            if ATOMIC:
                acc_dw += tl.sum(ds * t, 0, keep_dims=True)
                dq_SA = _over_kept(u) * (w_a * scale)
                tl.atomic_add(dq + (row + m) * A + a, dq_SA, mask=(m < Q) & (a < A), sem="relaxed")
        acc_dk += acc_h * w_a
        if ATOMIC:
            dw_A = _over_kept(_over_streamed(acc_dw))
            tl.store(dw + ((b * H + h) * tl.num_programs(0) + i) * A + a, dw_A, mask=a < A)

    tl.store(dk + b * dk_b + g * dk_g + n * dk_k + a, _over_streamed(acc_dk) * scale, mask=(n < K) & (a < A))
    at = i * R + tl.arange(0, R)
    tl.store(dv + b * dv_b + g * dv_g + at[:, None] * dv_k + e[None, :], acc_dv, mask=(at[:, None] < K) & (e[None, :] < E))
