"""A Triton kernel for the step of a decoder: few queries, each row at its own position in memory of a fixed size.

A program holds the queries of one row that share a key/value head, J heads × Q queries, and reads only the keys that they see:
how many these are is a number on the device, so that a recorded step (decoding/graphs/) stays right as the text grows. Long
texts are divided among several programs, whose results are then combined:

    o = Σ_s e^(m_s − m) a_s / Σ_s e^(m_s − m) l_s        m = max m_s

with the maximum m_s, the sum l_s of the exponentials and the weighted values a_s of each part (Dao et al. 2023, Flash-Decoding).

Letters as in call.py; J = H / G heads of a program, M ≥ J·Q its rows, S parts of a text.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from firth.layers.attention.call import Call
from firth.layers.attention.mask import CAUSAL, FULL, Lengths, StrictlyCausal, Window
from firth.layers.attention.score import Dot
from firth.layers.kernels.attention import WIDEST, no_triton
from firth.layers.kernels.triton.lazy import gdc_launch_dependents, gdc_wait, import_triton, jit, tl, triton
from firth.layers.kernels.triton.pieces import starts_early
from firth.layers.known import unknown_argument
from firth.layers.position import ALiBi, BucketBias, RotaryTurn

_BLOCK = 64  # keys at a time
_PROGRAMS = 128  # about as many as a GPU can run side by side
MOST_ROWS = 64  # queries of one program
_MASKS = "causal, strictly causal, a window, or lengths"
KNOWS = frozenset({"q_BHQD", "k_BGKC", "v_BGKE", "scale", "score", "mask", "position", "q_start", "head_H", "cap"})


def why_not(call: Call) -> str | None:
    q, v = call.q_BHQD, call.v_BGKE
    if reason := unknown_argument(call, KNOWS):
        return reason
    if reason := no_triton(q.device.type):
        return reason
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, call.k_BGKC, v)):
        return "the kernel for few queries has no gradient"
    if q.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"the Triton kernels compute in float32 and cannot give {q.dtype}"
    if max(q.shape[3], v.shape[3]) > WIDEST:
        return f"the Triton kernels hold heads of at most {WIDEST} on chip; q is {q.shape[3]} wide and v {v.shape[3]}"
    if call.heads_per_group * q.shape[2] > MOST_ROWS:
        return f"{call.heads_per_group} heads × {q.shape[2]} queries are more than {MOST_ROWS}"
    if not min(*q.shape, *call.k_BGKC.shape, *v.shape):
        return "there is nothing to compute: q, k or v is empty"
    if type(call.score) is not Dot:
        return f"it computes dot products; {type(call.score).__name__} is not one"
    if call.position is not None and type(call.position) not in (ALiBi, BucketBias):
        return f"it knows ALiBi and T5's buckets; {type(call.position).__name__} is neither"
    if isinstance(call.q_start, Tensor) and call.q_start.ndim == 2:
        return "it needs queries at consecutive positions"
    if isinstance(call.mask, Lengths) and isinstance(call.q_start, Tensor):
        return "it takes one number per row, either a start or a length"
    if not (call.mask in (CAUSAL, FULL) or type(call.mask) in (StrictlyCausal, Window, Lengths)):
        return f"it knows these masks: {_MASKS}"
    return None


def takes_fresh(call: Call) -> bool:
    """True if `run` may place q, k and v of the newest token itself."""
    one = call.q_BHQD.shape[2] == 1 and call.k_BGKC.shape[3] == call.v_BGKE.shape[3] and isinstance(call.q_start, Tensor)
    return one and why_not(call) is None and (call.mask == CAUSAL or type(call.mask) is Window)


def run(call: Call, fresh: Fresh | None = None) -> Tensor:
    """With `fresh`, what FixedKeyValue.extend and the turning of q and k would do is done on the way."""
    position, mask = call.position, call.mask
    table_HR, left = None, 0
    if isinstance(position, BucketBias):
        table_HR, left = position.table_HR().contiguous(), position.left
    return few_queries(
        call.q_BHQD,
        call.k_BGKC,
        call.v_BGKE,
        call.scale,
        cap=call.cap,
        start=call.q_start,
        length_B=mask.length_B if isinstance(mask, Lengths) else None,
        everything=mask == FULL,
        strict=isinstance(mask, StrictlyCausal),
        span=mask.span if isinstance(mask, Window) else None,
        slope_H=position.slope_H if isinstance(position, ALiBi) else None,
        table_HR=table_HR,
        left=left,
        fresh=fresh,
    )


def few_queries(
    q_BHQD: Tensor,
    k_BGKD: Tensor,
    v_BGKE: Tensor,
    scale: float,
    *,
    cap: float | None = None,
    start: int | Tensor = 0,
    length_B: Tensor | None = None,
    everything: bool = False,
    strict: bool = False,
    span: int | None = None,
    slope_H: Tensor | None = None,
    table_HR: Tensor | None = None,
    left: int = 0,
    fresh: Fresh | None = None,
    parts: int | None = None,
) -> Tensor:
    """o_BHQE. Row b sees the keys up to its queries, which begin at start[b] (not their own if `strict`, at most `span` of them);
    with length_B its first length_B[b]; or `everything`. With `fresh`, q and the newest key are still to be turned, and the
    newest key and value to be written to memory."""
    import_triton(__name__)
    (B, H, Q, D), (G, K), E = q_BHQD.shape, k_BGKD.shape[1:3], v_BGKE.shape[3]
    q_BHQD, k_BGKD, v_BGKE = (x if x.stride(-1) == 1 else x.contiguous() for x in (q_BHQD, k_BGKD, v_BGKE))
    o_BHQE = torch.empty(B, H, Q, E, dtype=q_BHQD.dtype, device=q_BHQD.device)
    parts = parts or min(16, max(1, min(triton.cdiv(K, 4 * _BLOCK), _PROGRAMS // (B * G))))
    held = torch.empty(parts, B, H, Q, E + 2, dtype=torch.float32, device=q_BHQD.device) if parts > 1 else o_BHQE
    early = starts_early(q_BHQD)
    per_row = start if isinstance(start, Tensor) else length_B
    new, turn = (q_BHQD, None) if fresh is None else fresh
    _part[(B * G, parts)](
        q_BHQD,
        k_BGKD,
        v_BGKE,
        held,
        new,
        *((q_BHQD, q_BHQD) if turn is None else (turn.cos_TD.contiguous(), turn.sin_TD.contiguous())),
        q_BHQD if per_row is None else per_row,
        q_BHQD if slope_H is None else slope_H,
        q_BHQD if table_HR is None else table_HR,
        *q_BHQD.stride()[:3],
        *k_BGKD.stride()[:3],
        *v_BGKE.stride()[:3],
        start if isinstance(start, int) else 0,
        K,
        span or 0,
        left,
        0 if table_HR is None else table_HR.shape[1],
        scale,
        cap or 1.0,
        B,
        G=G,
        J=H // G,
        Q=Q,
        D=D,
        E=E,
        M=max(16, triton.next_power_of_2(H // G * Q)),
        DP=max(16, triton.next_power_of_2(D)),
        EP=max(16, triton.next_power_of_2(E)),
        BLOCK=_BLOCK,
        PARTS=parts,
        SEEN="all" if everything else "lengths" if length_B is not None else "strict" if strict else "causal",
        PER_ROW=per_row is not None,
        SPAN=span is not None,
        CAP=cap is not None,
        SLOPE=slope_H is not None,
        TABLE=table_HR is not None,
        EARLY=early,
        FRESH=fresh is not None,
        TURN=turn is not None,
        **({"launch_pdl": True} if early else {}),
    )
    if parts > 1:
        sizes = {"E": E, "EP": triton.next_power_of_2(E), "PARTS": parts, "SP": triton.next_power_of_2(parts)}
        _joined[(B * H * Q,)](held, o_BHQE, B * H * Q, **sizes)
    return o_BHQE


class Fresh(NamedTuple):
    """One new token per row, as the product of a layer gives it: q, k and v side by side."""

    qkv_B1n: Tensor
    turn: RotaryTurn | None


@jit
def _part(  # noqa: PLR0912, PLR0915
    q_at, k_at, v_at, held_at, new_at, cos_at, sin_at, per_row_at, slope_at, table_at,
    q_b, q_h, q_q, k_b, k_g, k_k, v_b, v_g, v_k,
    start, K, span, left, R, scale, cap, B,
    G: tl.constexpr, J: tl.constexpr, Q: tl.constexpr, D: tl.constexpr, E: tl.constexpr,
    M: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr,
    SEEN: tl.constexpr, PER_ROW: tl.constexpr, SPAN: tl.constexpr, CAP: tl.constexpr, SLOPE: tl.constexpr, TABLE: tl.constexpr,
    EARLY: tl.constexpr, FRESH: tl.constexpr, TURN: tl.constexpr,
):  # fmt: skip
    """One part of the keys, for all queries of one row and key/value head."""
    if EARLY:
        gdc_launch_dependents()
        gdc_wait()
    b, g, part = (tl.program_id(0) // G).to(tl.int64), tl.program_id(0) % G, tl.program_id(1)
    scale, cap = tl.cast(scale, tl.float32), tl.cast(cap, tl.float32)  # torch.compile passes numbers in float64
    row_M = tl.arange(0, M)
    head_M, query_M, real_M = g * J + row_M // Q, row_M % Q, row_M < J * Q
    d_D, e_E = tl.arange(0, DP), tl.arange(0, EP)
    given = tl.load(per_row_at + b).to(tl.int32) if PER_ROW else start
    position_M = query_M + (0 if SEEN == "lengths" else given)
    # Keys lo ≤ k < hi are visible to some query of the row.
    lo, hi = 0, K
    if SEEN == "lengths":
        hi = tl.minimum(K, given)
    elif SEEN != "all":
        hi = tl.minimum(K, given + Q - (1 if SEEN == "strict" else 0))
    if FRESH:
        hi = tl.minimum(K - 1, given)  # the newest key comes from the product, not from memory
    if SPAN:
        lo = tl.maximum(0, given + 1 - span)
    each = tl.cdiv(tl.cdiv(tl.maximum(hi - lo, 0), PARTS), BLOCK) * BLOCK
    first, last = lo + part * each, tl.minimum(hi, lo + (part + 1) * each)

    q_MD = tl.load(
        q_at + b * q_b + head_M[:, None] * q_h + query_M[:, None] * q_q + d_D[None, :],
        mask=real_M[:, None] & (d_D < D)[None, :], other=0.0,
    )  # fmt: skip
    if SLOPE:
        slope_M = tl.load(slope_at + head_M, mask=real_M, other=0.0).to(tl.float32)
    most_M = tl.full([M], float("-inf"), tl.float32)
    total_M = tl.zeros([M], tl.float32)
    sum_ME = tl.zeros([M, EP], tl.float32)
    if FRESH:
        new_at += b * (G * J + 2 * G) * D
        k_D = tl.load(new_at + (G * J + g) * D + d_D, mask=d_D < D, other=0.0)
        v_E = tl.load(new_at + (G * J + G + g) * D + e_E, mask=e_E < E, other=0.0)
        if TURN:
            cos_D = tl.load(cos_at + b * D + d_D, mask=d_D < D, other=0.0).to(tl.float32)
            sin_D = tl.load(sin_at + b * D + d_D, mask=d_D < D, other=0.0).to(tl.float32)
            swapped_D = (d_D + D // 2) % D
            k_swapped_D = tl.load(new_at + (G * J + g) * D + swapped_D, mask=d_D < D, other=0.0).to(tl.float32)
            k_D = (k_D.to(tl.float32) * cos_D + k_swapped_D * sin_D).to(k_D.dtype)
            q_swapped_MD = tl.load(
                q_at + b * q_b + head_M[:, None] * q_h + swapped_D[None, :],
                mask=real_M[:, None] & (d_D < D)[None, :], other=0.0,
            )  # fmt: skip
            q_MD = (q_MD.to(tl.float32) * cos_D[None, :] + q_swapped_MD.to(tl.float32) * sin_D[None, :]).to(q_MD.dtype)
        if part == 0:
            tl.store(k_at + b * k_b + g * k_g + hi.to(tl.int64) * k_k + d_D, k_D, mask=d_D < D)
            tl.store(v_at + b * v_b + g * v_g + hi.to(tl.int64) * v_k + e_E, v_E, mask=e_E < E)
            most_M = tl.sum(q_MD.to(tl.float32) * k_D.to(tl.float32)[None, :], 1) * scale
            if CAP:
                most_M = cap * (2.0 / (1.0 + tl.exp(-2.0 * most_M / cap)) - 1.0)
            if TABLE:
                most_M += tl.load(table_at + head_M * R + left, mask=real_M, other=0.0).to(tl.float32)
            total_M += 1.0
            sum_ME += v_E.to(tl.float32)[None, :]
    for at in range(first, last, BLOCK):
        key_N = at + tl.arange(0, BLOCK)
        some_N = key_N < last
        k_ND = tl.load(
            k_at + b * k_b + g * k_g + key_N[:, None].to(tl.int64) * k_k + d_D[None, :],
            mask=some_N[:, None] & (d_D < D)[None, :], other=0.0,
        )  # fmt: skip
        v_NE = tl.load(
            v_at + b * v_b + g * v_g + key_N[:, None].to(tl.int64) * v_k + e_E[None, :],
            mask=some_N[:, None] & (e_E < E)[None, :], other=0.0,
        )  # fmt: skip
        s_MN = tl.dot(q_MD, tl.trans(k_ND), input_precision="ieee") * scale
        if CAP:
            s_MN = cap * (2.0 / (1.0 + tl.exp(-2.0 * s_MN / cap)) - 1.0)  # c tanh(s / c)
        distance_MN = key_N[None, :] - position_M[:, None]
        if SLOPE:
            s_MN -= slope_M[:, None] * tl.abs(distance_MN).to(tl.float32)
        if TABLE:
            index_MN = tl.minimum(tl.maximum(distance_MN + left, 0), R - 1)
            s_MN += tl.load(table_at + head_M[:, None] * R + index_MN, mask=real_M[:, None] & some_N[None, :], other=0.0).to(
                tl.float32
            )
        seen_MN = some_N[None, :] & real_M[:, None]
        if SEEN == "causal":
            seen_MN &= distance_MN <= 0
        if SEEN == "strict":
            seen_MN &= distance_MN < 0
        if SPAN:
            seen_MN &= distance_MN > -span
        s_MN = tl.where(seen_MN, s_MN, float("-inf"))
        new_M = tl.maximum(most_M, tl.max(s_MN, 1))
        safe_M = tl.where(new_M == float("-inf"), 0.0, new_M)
        p_MN = tl.exp(s_MN - safe_M[:, None])
        shrink_M = tl.exp(most_M - safe_M)
        total_M = total_M * shrink_M + tl.sum(p_MN, 1)
        sum_ME = sum_ME * shrink_M[:, None] + tl.dot(p_MN.to(v_NE.dtype), v_NE, input_precision="ieee")
        most_M = new_M
    place_M = (b * G * J + head_M) * Q + query_M
    if PARTS == 1:
        o_ME = sum_ME / tl.where(total_M == 0.0, 1.0, total_M)[:, None]
        tl.store(
            held_at + place_M[:, None] * E + e_E[None, :], o_ME.to(held_at.dtype.element_ty),
            mask=real_M[:, None] & (e_E < E)[None, :],
        )  # fmt: skip
    else:
        place_M = (part.to(tl.int64) * B * G * J * Q + place_M) * (E + 2)
        tl.store(held_at + place_M[:, None] + e_E[None, :], sum_ME, mask=real_M[:, None] & (e_E < E)[None, :])
        tl.store(held_at + place_M + E, most_M, mask=real_M)
        tl.store(held_at + place_M + E + 1, total_M, mask=real_M)


@jit
def _joined(held_at, o_at, rows, PARTS: tl.constexpr, E: tl.constexpr, EP: tl.constexpr, SP: tl.constexpr):
    """The parts of one query together."""
    row = tl.program_id(0).to(tl.int64)
    part_S, e_E = tl.arange(0, SP), tl.arange(0, EP)
    place_S = (part_S.to(tl.int64) * rows + row) * (E + 2)
    real_S = part_S < PARTS
    most_S = tl.load(held_at + place_S + E, mask=real_S, other=float("-inf"))
    total_S = tl.load(held_at + place_S + E + 1, mask=real_S, other=0.0)
    sum_SE = tl.load(
        held_at + place_S[:, None] + e_E[None, :], mask=real_S[:, None] & (e_E < E)[None, :], other=0.0
    )  # fmt: skip
    most = tl.max(most_S, 0)
    share_S = tl.exp(most_S - tl.where(most == float("-inf"), 0.0, most))
    total = tl.sum(total_S * share_S, 0)
    o_E = tl.sum(sum_SE * share_S[:, None], 0) / tl.where(total == 0.0, 1.0, total)
    tl.store(o_at + row * E + e_E, o_E.to(o_at.dtype.element_ty), mask=e_E < E)
