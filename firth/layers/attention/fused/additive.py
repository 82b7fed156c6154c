"""Additive attention in one pass over the keys: no Q×K tensor, and above all no Q×K×A tensor, is ever held.

    s_bhqk = scale · Σ_a w_ha tanh(q_bhqa + k_bgka)       g = h // (H // G)       (Bahdanau et al. 2015, §A.1.2)
    p_bhqk = softmax over the keys that q sees            o_bhqe = Σ_k p_bhqk v_bgke

    t = tanh(q + k),   dS = p · (dO·v − δ),   δ = dO·o
    dq_a = scale · w_a Σ_k dS (1 − t²)        dk_a = scale · w_a Σ_q dS (1 − t²)        dw_a = scale · Σ_qk dS t

The surprise: no matrix unit helps with the score. Its cost is one tanh for each of B·H·Q·K·A, and the special function
unit makes few of them, so what counts is how often each is made: once in forward, once for dq and dw, once for dk and dv.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from firth.layers.attention.spans import Spans


class Tiles(NamedTuple):
    """How the work is cut: integers only, for they pass through the operator as a list.

    A tile's axis is split in two: x1 lies across threads, x2 in the registers of each. Forward, m1·n1 must be 32 · warps;
    backward, where S is the side that streams by and R the side that stays, s1·r1·a2 must be 32 · backward_warps."""

    m1: int
    m2: int
    n1: int
    n2: int
    warps: int
    stages: int
    s1: int
    s2: int
    r1: int
    r2: int
    a2: int
    backward_warps: int
    backward_stages: int
    backward_registers: int  # at most so many for a thread; 0: as many as the compiler likes
    tanh: int  # 0: from exp, good to float32; 1: tanh.approx.f32; 2: tanh.approx.bf16x2, which sm_90 makes one at a time
    atomic: int  # 1: dq is added up in the kernel of dk: one tanh less, but a sum whose order varies from run to run


def tiles(A: int, E: int, dtype: torch.dtype) -> Tiles:
    a2 = max(4, _padded(A) // 16)
    s2 = 8 if A <= 32 else 4 if A <= 128 else 2  # 64 numbers of t to a thread where they fit
    backward = (2, s2, 16, 1, a2, a2, 2, 0)
    if dtype == torch.float32:
        return Tiles(16, 2, 8, 4, 4, 2, *backward, tanh=0, atomic=0)
    if E > 128:
        return Tiles(16, 4, 16, 4, 8, 2, *backward, tanh=1, atomic=0)
    return Tiles(16, 4, 8, 8, 4, 2, *backward, tanh=1, atomic=0)


def additive(
    q_BHQA: Tensor, k_BGKA: Tensor, w_HA: Tensor, v_BGKE: Tensor, spans: Spans, scale: float, cut: Tiles | None = None
) -> Tensor:
    """o_BHQE, laid out so that o.transpose(1, 2) is contiguous. `cut` is for tuning."""
    cut = cut or tiles(q_BHQA.shape[3], v_BGKE.shape[3], q_BHQA.dtype)
    o_BHQE: Tensor = additive_forward(q_BHQA, k_BGKA, w_HA, v_BGKE, *spans, scale, list(cut))[0]
    return o_BHQE


@torch.library.custom_op("firth::additive", mutates_args=())
def additive_forward(
    q_BHQA: Tensor,
    k_BGKA: Tensor,
    w_HA: Tensor,
    v_BGKE: Tensor,
    lo_BQ: Tensor,
    hi_BQ: Tensor,
    hole_lo_BQ: Tensor | None,
    hole_hi_BQ: Tensor | None,
    scale: float,
    cut: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """o, and for each query log Σ exp(s), which backward needs.

    Not in base 2: a product more for each pair is nothing beside its tanhs, and scale · log2(e) rounded would shift every s."""
    (B, H, Q, A), (_, G, K, E), c = q_BHQA.shape, v_BGKE.shape, Tiles(*cut)
    bounds, v = _bounds(lo_BQ, hi_BQ, hole_lo_BQ, hole_hi_BQ), _rowwise(v_BGKE)
    w = w_HA.to(torch.float32).contiguous()
    o, lse = _outputs(q_BHQA, v_BGKE)
    # One channel at a time is read for many rows: they must be neighbours. Whole tiles of them, so no load needs a mask.
    qt, kt = _channels_first(q_BHQA, c.m1 * c.m2), _channels_first(k_BGKA, c.n1 * c.n2)
    with torch.cuda.device_of(q_BHQA):  # type: ignore[no-untyped-call]
        _forward[triton.cdiv(Q, c.m1 * c.m2), H, B](
            qt, kt, w, v, o, lse, *bounds, scale, Q, K, A, E, qt.stride(2), kt.stride(2), H // G,
            *v.stride()[:3], *o.stride()[:3], _row_stride(lo_BQ),
            M1=c.m1, M2=c.m2, N1=c.n1, N2=c.n2, BLOCK_E=_padded(E), num_warps=c.warps, num_stages=c.stages,
            **_kind(q_BHQA, c, hole_lo_BQ),
        )  # fmt: skip
    return o, lse


@torch.library.custom_op("firth::additive_backward", mutates_args=())
def additive_backward(
    do_BHQE: Tensor,
    q_BHQA: Tensor,
    k_BGKA: Tensor,
    w_HA: Tensor,
    v_BGKE: Tensor,
    o_BHQE: Tensor,
    lse_BHQ: Tensor,
    lo_BQ: Tensor,
    hi_BQ: Tensor,
    hole_lo_BQ: Tensor | None,
    hole_hi_BQ: Tensor | None,
    scale: float,
    cut: Sequence[int],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    (B, H, Q, A), (_, G, K, E), c = q_BHQA.shape, v_BGKE.shape, Tiles(*cut)
    bounds, v, do = _bounds(lo_BQ, hi_BQ, hole_lo_BQ, hole_hi_BQ), _rowwise(v_BGKE), _rowwise(do_BHQE)
    # float32 once here, or each thread would widen the same numbers again for every tile.
    q, k, w = _rowwise(q_BHQA.to(torch.float32)), _rowwise(k_BGKA.to(torch.float32)), w_HA.to(torch.float32).contiguous()
    dq, dk, _, dv = _gradients(q_BHQA, k_BGKA, w_HA, v_BGKE)
    rows, delta = triton.cdiv(K if c.atomic else Q, c.r1 * c.r2), torch.empty_like(lse_BHQ)
    dw_BHrA = w.new_empty(B, H, rows, A)
    sum_dq = torch.zeros(B, H, Q, A, dtype=torch.float32, device=q.device) if c.atomic else dq
    tile = {
        "S1": c.s1, "S2": c.s2, "R1": c.r1, "R2": c.r2, "A1": _padded(A) // c.a2, "A2": c.a2, "BLOCK_E": _padded(E),
        "STAGES": c.backward_stages, "num_stages": c.backward_stages, "num_warps": c.backward_warps,
        **_kind(q_BHQA, c, hole_lo_BQ),
    }  # fmt: skip
    if c.backward_registers:
        tile["maxnreg"] = c.backward_registers
    given = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *do.stride()[:3])
    with torch.cuda.device_of(q):  # type: ignore[no-untyped-call]
        _delta[triton.cdiv(Q, 64), H, B](
            do, o_BHQE, delta, Q, E, *do.stride()[:3], *o_BHQE.stride()[:3], M=64, BLOCK_E=_padded(E)
        )  # fmt: skip
        if not c.atomic:
            _dq[rows, H, B](
                q, k, w, v, do, lse_BHQ, delta, dq, dw_BHrA, *bounds, scale, Q, K, A, E, H // G,
                *given, *dq.stride()[:3], _row_stride(lo_BQ), **tile,
            )  # fmt: skip
        _dkv[triton.cdiv(K, c.r1 * c.r2), G, B](
            q, k, w, v, do, lse_BHQ, delta, dk, dv, sum_dq, dw_BHrA, *bounds, scale, Q, K, A, E, H // G,
            *given, *dk.stride()[:3], *dv.stride()[:3], _row_stride(lo_BQ), CHUNK=1024, ATOMIC=bool(c.atomic), **tile,
        )  # fmt: skip
    if c.atomic:
        dq.copy_(sum_dq)
    return dq, dk, (dw_BHrA.sum((0, 2)) * scale).to(w_HA.dtype), dv


@additive_forward.register_fake
def _(q_BHQA: Tensor, k_BGKA: Tensor, w_HA: Tensor, v_BGKE: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _outputs(q_BHQA, v_BGKE)


@additive_backward.register_fake
def _(
    do_BHQE: Tensor, q_BHQA: Tensor, k_BGKA: Tensor, w_HA: Tensor, v_BGKE: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _gradients(q_BHQA, k_BGKA, w_HA, v_BGKE)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.scale, ctx.cut = inputs
    ctx.save_for_backward(*tensors[:4], *output, *tensors[4:])


def _derive(ctx: Any, do_BHQE: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    return (*additive_backward(do_BHQE, *ctx.saved_tensors, ctx.scale, ctx.cut), *(None,) * 6)


additive_forward.register_autograd(_derive, setup_context=_keep)


def _outputs(q_BHQA: Tensor, v_BGKE: Tensor) -> tuple[Tensor, Tensor]:
    return _empty(q_BHQA, v_BGKE.shape[3]), q_BHQA.new_empty(q_BHQA.shape[:3], dtype=torch.float32)


def _gradients(q_BHQA: Tensor, k_BGKA: Tensor, w_HA: Tensor, v_BGKE: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    w = torch.empty(w_HA.shape, dtype=w_HA.dtype, device=w_HA.device)
    return _empty(q_BHQA, q_BHQA.shape[3]), _empty(k_BGKA, k_BGKA.shape[3]), w, _empty(v_BGKE, v_BGKE.shape[3])


def _empty(like_BHQn: Tensor, width: int) -> Tensor:
    B, H, Q, _ = like_BHQn.shape
    return like_BHQn.new_empty(B, Q, H, width).transpose(1, 2)


def _padded(width: int) -> int:
    return max(16, int(triton.next_power_of_2(width)))


def _rowwise(x_BHQn: Tensor) -> Tensor:
    return x_BHQn if x_BHQn.stride(3) == 1 else x_BHQn.contiguous()


def _channels_first(x_BHQA: Tensor, block: int) -> Tensor:
    B, H, Q, A = x_BHQA.shape
    x_BHAQ = x_BHQA.new_empty(B, H, A, triton.cdiv(Q, block) * block, dtype=torch.float32)
    x_BHAQ[..., :Q].copy_(x_BHQA.mT)
    return x_BHAQ


def _bounds(lo_BQ: Tensor, hi_BQ: Tensor, hole_lo_BQ: Tensor | None, hole_hi_BQ: Tensor | None) -> list[Tensor]:
    """Without a hole the kernels do not read the last two, but want pointers."""
    return [
        bound.contiguous()
        for bound in (lo_BQ, hi_BQ, lo_BQ if hole_lo_BQ is None else hole_lo_BQ, hi_BQ if hole_hi_BQ is None else hole_hi_BQ)
    ]


def _row_stride(lo_BQ: Tensor) -> int:
    return 0 if len(lo_BQ) == 1 else lo_BQ.shape[1]


def _kind(q_BHQA: Tensor, cut: Tiles, hole: Tensor | None) -> dict[str, Any]:
    return {
        "HOLE": hole is not None,
        "TANH": cut.tanh if q_BHQA.is_cuda else 0,  # the interpreter knows no assembler
        "PRECISION": "ieee" if q_BHQA.dtype == torch.float32 else "tf32",
    }


@triton.jit  # type: ignore[untyped-decorator]
def _tanh(x, MODE: tl.constexpr):  # type: ignore[no-untyped-def]
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
def _span(lo, hi, at, inside, K):  # type: ignore[no-untyped-def]
    """lo and hi of some queries. One that sees nothing becomes the empty span K, 0, so that min and max pass it by."""
    first = tl.load(lo + at, mask=inside, other=0)
    last = tl.load(hi + at, mask=inside, other=0)
    return tl.where(first < last, first, K), tl.where(first < last, last, 0)


@triton.jit  # type: ignore[untyped-decorator]
def _forward(  # type: ignore[no-untyped-def]
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
        base = tl.where(new == float("-inf"), 0.0, new)  # nothing seen so far: −inf − −inf would be NaN
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
    # By the spans, not by total == 0: scores that are all −inf must give 0/0.
    out = tl.where(tl.reshape(some, (M, 1)), acc / tl.reshape(total, (M, 1)), 0.0)
    q = tl.program_id(0) * M + tl.arange(0, M)
    tl.store(o + b * o_b + h * o_h + q[:, None] * o_q + e[None, :], out, mask=(q[:, None] < Q) & (e[None, :] < E))


@triton.jit  # type: ignore[untyped-decorator]
def _seen(n, m, lo, hi, hole_lo, hole_hi, HOLE: tl.constexpr):  # type: ignore[no-untyped-def]
    seen = (n >= tl.load(lo + m)) & (n < tl.load(hi + m))
    if HOLE:
        seen = seen & ((n < tl.load(hole_lo + m)) | (n >= tl.load(hole_hi + m)))
    return seen


@triton.jit  # type: ignore[untyped-decorator]
def _readers(lo, hi, n0, n1, Q, K, CHUNK: tl.constexpr):  # type: ignore[no-untyped-def]
    """The first query that may see a key of n0 … n1, and one past the last."""
    least, most = tl.full([CHUNK], Q, tl.int32), tl.zeros([CHUNK], tl.int32)
    for m0 in range(0, Q, CHUNK):
        m = m0 + tl.arange(0, CHUNK)
        first, last = _span(lo, hi, m, m < Q, K)
        sees = (first < n1) & (last > n0)
        least, most = tl.minimum(least, tl.where(sees, m, Q)), tl.maximum(most, tl.where(sees, m + 1, 0))
    return tl.min(least), tl.max(most)


@triton.jit  # type: ignore[untyped-decorator]
def _delta(do, o, delta, Q, E, do_b, do_h, do_q, o_b, o_h, o_q, M: tl.constexpr, BLOCK_E: tl.constexpr):  # type: ignore[no-untyped-def]
    h, b = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    m, e = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, BLOCK_E)
    inside = (m[:, None] < Q) & (e[None, :] < E)
    do_ME = tl.load(do + b * do_b + h * do_h + m[:, None] * do_q + e[None, :], mask=inside, other=0.0).to(tl.float32)
    o_ME = tl.load(o + b * o_b + h * o_h + m[:, None] * o_q + e[None, :], mask=inside, other=0.0).to(tl.float32)
    tl.store(delta + (b * tl.num_programs(1) + h) * Q + m, tl.sum(do_ME * o_ME, 1), mask=m < Q)


# Axes of a backward tile: S2, R2, A1, S1, R1, A2. The compiler lays the last ones across threads (32 · warps of them) and leaves
# the first in registers. So Σ_a is a sum in registers and a few shuffles, and a sum over S or R, kept apart by thread
# until the loop has ended, needs none; and t stays where it is from the score to the derivative.


@triton.jit  # type: ignore[untyped-decorator]
def _streamed(S1: tl.constexpr, S2: tl.constexpr):  # type: ignore[no-untyped-def]
    return (tl.arange(0, S2) * S1)[:, None, None, None, None, None] + tl.arange(0, S1)[None, None, None, :, None, None]


@triton.jit  # type: ignore[untyped-decorator]
def _kept(R1: tl.constexpr, R2: tl.constexpr):  # type: ignore[no-untyped-def]
    return (tl.arange(0, R2) * R1)[None, :, None, None, None, None] + tl.arange(0, R1)[None, None, None, None, :, None]


@triton.jit  # type: ignore[untyped-decorator]
def _channel(A1: tl.constexpr, A2: tl.constexpr):  # type: ignore[no-untyped-def]
    return tl.arange(0, A1)[None, None, :, None, None, None] + (tl.arange(0, A2) * A1)[None, None, None, None, None, :]


@triton.jit
def _rows(x, at, stride, end, e, E):  # type: ignore[no-untyped-def]
    return tl.load(x + at[:, None] * stride + e[None, :], mask=(at[:, None] < end) & (e[None, :] < E), other=0.0)


# Two traps, both about which layout the compiler gives to a tile. Through reshape and permute alone the layout of a load or of a
# dot would spread to it; it ends at an added axis. And what there is once for a pair keeps the axis A2 all the same: without
# it its layout would be another, and rather than move the sums the compiler would make every tanh again in that layout.


@triton.jit  # type: ignore[untyped-decorator]
def _as_streamed(x_SA, S1: tl.constexpr, S2: tl.constexpr, A1: tl.constexpr, A2: tl.constexpr):  # type: ignore[no-untyped-def]
    x = tl.permute(tl.reshape(x_SA, (S2, S1, A2, A1)), (0, 3, 1, 2))
    return x[:, None, :, :, None, :].to(tl.float32)


@triton.jit  # type: ignore[untyped-decorator]
def _as_kept(x_RA, R1: tl.constexpr, R2: tl.constexpr, A1: tl.constexpr, A2: tl.constexpr):  # type: ignore[no-untyped-def]
    x = tl.permute(tl.reshape(x_RA, (R2, R1, A2, A1)), (0, 3, 1, 2))
    return x[None, :, :, None, :, :].to(tl.float32)


@triton.jit  # type: ignore[untyped-decorator]
def _as_pairs(x_RS, S1: tl.constexpr, S2: tl.constexpr, R1: tl.constexpr, R2: tl.constexpr, A2: tl.constexpr):  # type: ignore[no-untyped-def]
    x = tl.permute(tl.reshape(x_RS, (R2, R1, S2, S1)), (2, 0, 3, 1))
    return tl.broadcast_to(x[:, :, None, :, :, None], (S2, R2, 1, S1, R1, A2))


@triton.jit  # type: ignore[untyped-decorator]
def _over_channels(x, S1: tl.constexpr, S2: tl.constexpr, R1: tl.constexpr, R2: tl.constexpr, A2: tl.constexpr):  # type: ignore[no-untyped-def]
    return tl.broadcast_to(tl.sum(tl.sum(x, 2, keep_dims=True), 5, keep_dims=True), (S2, R2, 1, S1, R1, A2))


@triton.jit
def _over_streamed(x):  # type: ignore[no-untyped-def]
    return tl.sum(tl.sum(x, 0, keep_dims=True), 3, keep_dims=True)


@triton.jit
def _over_kept(x):  # type: ignore[no-untyped-def]
    return tl.sum(tl.sum(x, 1, keep_dims=True), 4, keep_dims=True)


@triton.jit  # type: ignore[untyped-decorator]
def _dq(  # type: ignore[no-untyped-def]
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


@triton.jit  # type: ignore[untyped-decorator]
def _dkv(  # type: ignore[no-untyped-def]
    q, k, w, v, do, lse, delta, dk, dv, dq, dw, lo, hi, hole_lo, hole_hi, scale, Q, K, A, E, ratio,
    q_b, q_h, q_q, k_b, k_g, k_k, v_b, v_g, v_k, do_b, do_h, do_q, dk_b, dk_g, dk_k, dv_b, dv_g, dv_k, span_b,
    S1: tl.constexpr, S2: tl.constexpr, R1: tl.constexpr, R2: tl.constexpr, A1: tl.constexpr, A2: tl.constexpr,
    STAGES: tl.constexpr, BLOCK_E: tl.constexpr, HOLE: tl.constexpr, TANH: tl.constexpr, PRECISION: tl.constexpr,
    ATOMIC: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """dk and dv of R keys: the queries of all the heads that read them stream by."""
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
