"""Additive attention in one pass over the keys: it never holds a Q×K tensor, let alone one of Q×K×A.

    s_bhqk = scale · Σ_a w_ha tanh(q_bhqa + k_bgka)       g = h // (H // G)       (Bahdanau et al. 2015, §A.1.2)
    p_bhqk = softmax over the keys that q sees            o_bhqe = Σ_k p_bhqk v_bgke

    t = tanh(q + k),   dS = p · (dO·v − δ),   δ = dO·o
    dq_a = scale · w_a Σ_k dS (1 − t²)        dk_a = scale · w_a Σ_q dS (1 − t²)        dw_a = scale · Σ_qk dS t

Tensor cores do not help with the score: it costs one tanh for each of B·H·Q·K·A, and the special function unit is slow, so the
number of times each tanh is computed matters: once in forward, once for dq and dw, once for dk and dv.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from firth.layers.attention.key_ranges import Spans
from firth.layers.kernels.attention.additive_kernels import delta_kernel, dkv_kernel, dq_kernel, forward_kernel
from firth.layers.kernels.attention.layout import dense_rows, empty_rows, padded
from firth.layers.kernels.attention.operation import differentiable


class AdditiveTiles(NamedTuple):
    """The sizes into which the work is divided. Integers only, because they pass through the operator as a list.

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
    backward_registers: int  # maximum per thread; 0: up to the compiler
    tanh: int  # 0: from exp, good to float32; 1: tanh.approx.f32; 2: tanh.approx.bf16x2, which sm_90 computes one at a time
    atomic: int  # 1: dq is summed in the kernel of dk: one tanh fewer, but the order of the sum varies from run to run


def tiles(A: int, E: int, dtype: torch.dtype) -> AdditiveTiles:
    a2 = max(4, padded(A) // 16)
    s2 = 8 if A <= 32 else 4 if A <= 128 else 2  # 64 elements of t per thread if they fit
    backward = (8, 2, 8, 1, 2, 4, 3, 0) if padded(A) == 64 else (2, s2, 16, 1, a2, a2, 2, 0)
    if dtype == torch.float32:
        return AdditiveTiles(16, 2, 8, 4, 4, 2, *backward, tanh=0, atomic=0)
    if E > 128:
        return AdditiveTiles(16, 4, 16, 4, 8, 2, *backward, tanh=1, atomic=0)
    return AdditiveTiles(8, 8, 16, 4, 4, 2, *backward, tanh=1, atomic=0)


def additive(
    q_BHQA: Tensor, k_BGKA: Tensor, w_HA: Tensor, v_BGKE: Tensor, spans: Spans, scale: float, cut: AdditiveTiles | None = None
) -> Tensor:
    """o_BHQE, laid out so that o.transpose(1, 2) is contiguous. `cut` is for tuning."""
    cut = cut or tiles(q_BHQA.shape[3], v_BGKE.shape[3], q_BHQA.dtype)
    o_BHQE: Tensor = _differentiable(q_BHQA, k_BGKA, w_HA, v_BGKE, *spans, scale, list(cut))[0]
    return o_BHQE


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
    """o, and for each query log Σ exp(s), which the backward pass needs.

    Not in base 2: one more product per pair is nothing beside its tanhs, and rounding scale · log2(e) would shift every s."""
    (B, H, Q, A), (_, G, K, E), c = q_BHQA.shape, v_BGKE.shape, AdditiveTiles(*cut)
    bounds, v = _bounds(lo_BQ, hi_BQ, hole_lo_BQ, hole_hi_BQ), dense_rows(v_BGKE)
    w = w_HA.to(torch.float32).contiguous()
    o, lse = _outputs(q_BHQA, v_BGKE)
    # Many rows of one channel are loaded at a time, so they must be neighbours; whole tiles, so that no load needs a mask.
    qt, kt = _channels_first(q_BHQA, c.m1 * c.m2), _channels_first(k_BGKA, c.n1 * c.n2)
    with torch.cuda.device_of(q_BHQA):  # type: ignore[no-untyped-call]
        forward_kernel[triton.cdiv(Q, c.m1 * c.m2), H, B](
            qt, kt, w, v, o, lse, *bounds, scale, Q, K, A, E, qt.stride(2), kt.stride(2), H // G,
            *v.stride()[:3], *o.stride()[:3], _row_stride(lo_BQ),
            M1=c.m1, M2=c.m2, N1=c.n1, N2=c.n2, BLOCK_E=padded(E), num_warps=c.warps, num_stages=c.stages,
            **_kind(q_BHQA, c, hole_lo_BQ),
        )  # fmt: skip
    return o, lse


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
    (B, H, Q, A), (_, G, K, E), c = q_BHQA.shape, v_BGKE.shape, AdditiveTiles(*cut)
    bounds, v, do = _bounds(lo_BQ, hi_BQ, hole_lo_BQ, hole_hi_BQ), dense_rows(v_BGKE), dense_rows(do_BHQE)
    # Converted to float32 once here; otherwise each thread would convert the same numbers for every tile.
    q, k, w = dense_rows(q_BHQA.to(torch.float32)), dense_rows(k_BGKA.to(torch.float32)), w_HA.to(torch.float32).contiguous()
    dq, dk, _, dv = _gradients(q_BHQA, k_BGKA, w_HA, v_BGKE)
    rows, delta = triton.cdiv(K if c.atomic else Q, c.r1 * c.r2), torch.empty_like(lse_BHQ)
    dw_BHrA = w.new_empty(B, H, rows, A)
    sum_dq = torch.zeros(B, H, Q, A, dtype=torch.float32, device=q.device) if c.atomic else dq
    tile = {
        "S1": c.s1, "S2": c.s2, "R1": c.r1, "R2": c.r2, "A1": padded(A) // c.a2, "A2": c.a2, "BLOCK_E": padded(E),
        "STAGES": c.backward_stages, "num_stages": c.backward_stages, "num_warps": c.backward_warps,
        **_kind(q_BHQA, c, hole_lo_BQ),
    }  # fmt: skip
    if c.backward_registers:
        tile["maxnreg"] = c.backward_registers
    given = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *do.stride()[:3])
    with torch.cuda.device_of(q):  # type: ignore[no-untyped-call]
        delta_kernel[triton.cdiv(Q, 64), H, B](
            do, o_BHQE, delta, Q, E, *do.stride()[:3], *o_BHQE.stride()[:3], M=64, BLOCK_E=padded(E)
        )  # fmt: skip
        if not c.atomic:
            dq_kernel[rows, H, B](
                q, k, w, v, do, lse_BHQ, delta, dq, dw_BHrA, *bounds, scale, Q, K, A, E, H // G,
                *given, *dq.stride()[:3], _row_stride(lo_BQ), **tile,
            )  # fmt: skip
        dkv_kernel[triton.cdiv(K, c.r1 * c.r2), G, B](
            q, k, w, v, do, lse_BHQ, delta, dk, dv, sum_dq, dw_BHrA, *bounds, scale, Q, K, A, E, H // G,
            *given, *dk.stride()[:3], *dv.stride()[:3], _row_stride(lo_BQ), CHUNK=1024, ATOMIC=bool(c.atomic), **tile,
        )  # fmt: skip
    if c.atomic:
        dq.copy_(sum_dq)
    return dq, dk, (dw_BHrA.sum((0, 2)) * scale).to(w_HA.dtype), dv


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.scale, ctx.cut = inputs
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*tensors[:4], *output, *tensors[4:])


def _derive(ctx: Any, backward: Any, do_BHQE: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    return (*backward(do_BHQE, *ctx.saved_tensors, ctx.scale, ctx.cut), *(None,) * 6)


def _outputs(q_BHQA: Tensor, v_BGKE: Tensor) -> tuple[Tensor, Tensor]:
    return _empty(q_BHQA, v_BGKE.shape[3]), q_BHQA.new_empty(q_BHQA.shape[:3], dtype=torch.float32)


def _gradients(q_BHQA: Tensor, k_BGKA: Tensor, w_HA: Tensor, v_BGKE: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    w = torch.empty(w_HA.shape, dtype=w_HA.dtype, device=w_HA.device)
    return _empty(q_BHQA, q_BHQA.shape[3]), _empty(k_BGKA, k_BGKA.shape[3]), w, _empty(v_BGKE, v_BGKE.shape[3])


def _empty(like_BHQn: Tensor, width: int) -> Tensor:
    return empty_rows(like_BHQn, like_BHQn.shape[1], like_BHQn.shape[2], width)


def _channels_first(x_BHQA: Tensor, block: int) -> Tensor:
    B, H, Q, A = x_BHQA.shape
    x_BHAQ = x_BHQA.new_empty(B, H, A, triton.cdiv(Q, block) * block, dtype=torch.float32)
    x_BHAQ[..., :Q].copy_(x_BHQA.mT)
    return x_BHAQ


def _bounds(lo_BQ: Tensor, hi_BQ: Tensor, hole_lo_BQ: Tensor | None, hole_hi_BQ: Tensor | None) -> list[Tensor]:
    """Without a hole the kernels do not read the last two, but still need pointers."""
    return [
        bound.contiguous()
        for bound in (lo_BQ, hi_BQ, lo_BQ if hole_lo_BQ is None else hole_lo_BQ, hi_BQ if hole_hi_BQ is None else hole_hi_BQ)
    ]


def _row_stride(lo_BQ: Tensor) -> int:
    return 0 if len(lo_BQ) == 1 else lo_BQ.shape[1]


def _kind(q_BHQA: Tensor, cut: AdditiveTiles, hole: Tensor | None) -> dict[str, Any]:
    return {
        "HOLE": hole is not None,
        "TANH": cut.tanh if q_BHQA.is_cuda else 0,  # the interpreter has no assembler
        "PRECISION": "ieee" if q_BHQA.dtype == torch.float32 else "tf32",
    }


operator = torch.library.custom_op("firth::additive", additive_forward, mutates_args=())
operator.register_fake(lambda q_BHQA, k_BGKA, w_HA, v_BGKE, *_: _outputs(q_BHQA, v_BGKE))
backward_operator = torch.library.custom_op("firth::additive_backward", additive_backward, mutates_args=())
backward_operator.register_fake(lambda do_BHQE, q_BHQA, k_BGKA, w_HA, v_BGKE, *_: _gradients(q_BHQA, k_BGKA, w_HA, v_BGKE))
_differentiable = differentiable(operator, backward_operator, additive_forward, additive_backward, _keep, _derive)
