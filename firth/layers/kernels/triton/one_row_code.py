"""The kernels of one_row.py. Letters as there; K inputs of a product, N outputs of a program, P padded to a power of two."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from firth.layers.activation import ActivationKind, is_gated
from firth.layers.kernels.triton.few_queries_code import starts_early
from firth.layers.position import RotaryTurn
from firth.layers.state import FixedKeyValue


def product(
    x_11d: Tensor,
    W_nd: Tensor,
    b_n: Tensor | None = None,
    *,
    norm: nn.Module | None = None,
    activation: ActivationKind | None = None,
    residual: Tensor | None = None,
    tile: tuple[int, int, int] | None = None,
) -> Tensor:
    """residual + φ(W N(x) + b), any part of which may be missing. `tile`: outputs and inputs at a time, and warps."""
    K, gated = x_11d.shape[-1], is_gated(activation)
    n = len(W_nd) // (2 if gated else 1)
    y_11n = torch.empty(1, 1, n, dtype=x_11d.dtype, device=x_11d.device)
    outputs, inputs, warps = tile or _tile(n, K, norm is not None, gated)
    early = starts_early(x_11d)
    gain, shift = (None, None) if norm is None else (norm.weight, getattr(norm, "bias", None))
    eps: Any = 0.0 if norm is None else norm.eps
    _product[(triton.cdiv(n, outputs),)](
        x_11d.contiguous(),
        W_nd.contiguous(),
        y_11n,
        *(x_11d if given is None else given for given in (b_n, residual, gain, shift)),
        n,
        K,
        torch.finfo(x_11d.dtype).eps if eps is None else eps,
        N=outputs,
        KB=inputs,
        KP=triton.next_power_of_2(K),
        NORM="none" if norm is None else "layer" if isinstance(norm, nn.LayerNorm) else "rms",
        ACTIVATION=activation or "none",
        GATED=gated,
        BIAS=b_n is not None,
        RESIDUAL=residual is not None,
        SHIFT=shift is not None,
        EARLY=early,
        num_warps=warps,
        **({"launch_pdl": True} if early else {}),
    )
    return y_11n


def place(qkv_BTn: Tensor, turn: RotaryTurn | None, past: FixedKeyValue, heads: int) -> Tensor:
    """q_BHTD, turned; k, turned, and v are written to the memory of `past`."""
    (B, T, _), (G, C, D) = qkv_BTn.shape, past.k_BGCD.shape[1:]
    q_BHTD = torch.empty(B, heads, T, D, dtype=qkv_BTn.dtype, device=qkv_BTn.device)
    early = starts_early(qkv_BTn)
    cos, sin = (q_BHTD, q_BHTD) if turn is None else (turn.cos_TD.contiguous(), turn.sin_TD.contiguous())
    _place[(B * T, heads + 2 * G)](
        qkv_BTn,
        q_BHTD,
        past.k_BGCD,
        past.v_BGCE,
        past.length_B,
        cos,
        sin,
        *past.k_BGCD.stride()[:3],
        *past.v_BGCE.stride()[:3],
        C,
        T,
        H=heads,
        G=G,
        D=D,
        DP=triton.next_power_of_2(D),
        TURN=turn is not None,
        EARLY=early,
        num_warps=1,
        **({"launch_pdl": True} if early else {}),
    )
    return q_BHTD


def _tile(n: int, K: int, normed: bool, gated: bool) -> tuple[int, int, int]:
    """Measured on an H200 (LOG.md, "Decoding on a GPU")."""
    if gated:
        return 2, 512, 2
    if normed:
        return 4, 512, 4
    if n >= 1 << 14:  # a vocabulary
        return (16, 256, 4) if K <= 1024 else (4, 512, 4)
    return (2, 1024, 4) if n >= 2048 else (4, 1024, 8)


@triton.jit
def _product(  # noqa: PLR0912
    x_at, W_at, y_at, b_at, residual_at, gain_at, shift_at, n, K, eps,
    N: tl.constexpr, KB: tl.constexpr, KP: tl.constexpr,
    NORM: tl.constexpr, ACTIVATION: tl.constexpr, GATED: tl.constexpr,
    BIAS: tl.constexpr, RESIDUAL: tl.constexpr, SHIFT: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """x with N rows of W, and with N more if there is a gate. The loop only multiplies, and the norm enters after it, so that
    nothing waits for a sum:

        W ((x − μ) r ⊙ γ + β) = r (W (γ ⊙ x) − μ W γ) + W β

    `EARLY`: the kernel starts before the one whose x it needs has finished, and reads its first weights meanwhile."""
    out_N, k_K = tl.program_id(0) * N + tl.arange(0, N), tl.arange(0, KB)
    real_N = out_N < n
    row_N, gate_rows = out_N[:, None].to(tl.int64) * K, n.to(tl.int64) * K
    W_NK = tl.load(W_at + row_N + k_K[None, :], mask=real_N[:, None] & (k_K < K)[None, :], other=0.0)
    if GATED:
        V_NK = tl.load(W_at + gate_rows + row_N + k_K[None, :], mask=real_N[:, None] & (k_K < K)[None, :], other=0.0)
    if EARLY:
        gdc_launch_dependents()
        gdc_wait()
    y_NK, gain_NK, shift_NK = (tl.zeros([N, KB], tl.float32), tl.zeros([N, KB], tl.float32), tl.zeros([N, KB], tl.float32))
    v_NK, gain_v_NK, shift_v_NK = (tl.zeros([N, KB], tl.float32), tl.zeros([N, KB], tl.float32), tl.zeros([N, KB], tl.float32))
    for at in range(0, K, KB):
        column_K = at + k_K
        real_K = column_K < K
        x_K = tl.load(x_at + column_K, mask=real_K, other=0.0).to(tl.float32)
        if NORM != "none":
            gain_K = tl.load(gain_at + column_K, mask=real_K, other=0.0).to(tl.float32)
            x_K *= gain_K
            if NORM == "layer":
                gain_NK += W_NK.to(tl.float32) * gain_K[None, :]
            if SHIFT:
                shift_K = tl.load(shift_at + column_K, mask=real_K, other=0.0).to(tl.float32)
                shift_NK += W_NK.to(tl.float32) * shift_K[None, :]
        y_NK += W_NK.to(tl.float32) * x_K[None, :]
        if GATED:
            if NORM == "layer":
                gain_v_NK += V_NK.to(tl.float32) * gain_K[None, :]
            if SHIFT:
                shift_v_NK += V_NK.to(tl.float32) * shift_K[None, :]
            v_NK += V_NK.to(tl.float32) * x_K[None, :]
        more_NK = real_N[:, None] & (column_K + KB < K)[None, :]
        W_NK = tl.load(W_at + row_N + column_K[None, :] + KB, mask=more_NK, other=0.0)
        if GATED:
            V_NK = tl.load(W_at + gate_rows + row_N + column_K[None, :] + KB, mask=more_NK, other=0.0)
    mean, scale = 0.0, 1.0
    if NORM != "none":
        mean, scale = _moments(x_at, K, eps, KP, NORM)
    y_N = _finished(y_NK, gain_NK, shift_NK, mean, scale, NORM, SHIFT)
    if BIAS:
        y_N += tl.load(b_at + out_N, mask=real_N, other=0.0).to(tl.float32)
    y_N = _activated(y_N, ACTIVATION)
    if GATED:
        v_N = _finished(v_NK, gain_v_NK, shift_v_NK, mean, scale, NORM, SHIFT)
        if BIAS:
            v_N += tl.load(b_at + n + out_N, mask=real_N, other=0.0).to(tl.float32)
        y_N *= v_N
    if RESIDUAL:
        y_N += tl.load(residual_at + out_N, mask=real_N, other=0.0).to(tl.float32)
    tl.store(y_at + out_N, y_N.to(y_at.dtype.element_ty), mask=real_N)


@triton.jit
def _moments(x_at, K, eps, KP: tl.constexpr, NORM: tl.constexpr):
    """μ and r of the norm."""
    all_P = tl.arange(0, KP)
    x_P = tl.load(x_at + all_P, mask=all_P < K, other=0.0).to(tl.float32)
    mean = 0.0
    if NORM == "layer":
        mean = tl.sum(x_P, 0) / K
        x_P = tl.where(all_P < K, x_P - mean, 0.0)
    return mean, 1.0 / tl.sqrt(tl.sum(x_P * x_P, 0) / K + tl.cast(eps, tl.float32))


@triton.jit
def _finished(y_NK, gain_NK, shift_NK, mean, scale, NORM: tl.constexpr, SHIFT: tl.constexpr):
    y_N = tl.sum(y_NK, 1)
    if NORM == "layer":
        y_N -= mean * tl.sum(gain_NK, 1)
    if NORM != "none":
        y_N *= scale
    if SHIFT:
        y_N += tl.sum(shift_NK, 1)
    return y_N


@triton.jit
def _activated(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    elif ACTIVATION == "gelu" or ACTIVATION == "geglu":  # noqa: PLR1714  # Triton knows no `in`
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif ACTIVATION == "gelu_tanh" or ACTIVATION == "geglu_tanh":  # noqa: PLR1714
        x = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))  # ½(1 + tanh z) = σ(2z)
    elif ACTIVATION == "silu" or ACTIVATION == "swiglu":  # noqa: PLR1714
        x = x * tl.sigmoid(x)
    return x


@triton.jit
def _place(
    qkv_at, q_at, k_at, v_at, length_at, cos_at, sin_at, k_b, k_g, k_c, v_b, v_g, v_c, C, T,
    H: tl.constexpr, G: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, TURN: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """One head of one token."""
    if EARLY:
        gdc_launch_dependents()
        gdc_wait()
    token, head = tl.program_id(0), tl.program_id(1)
    b, t = (token // T).to(tl.int64), token % T
    d_D = tl.arange(0, DP)
    real_D = d_D < D
    from_at = qkv_at + token * (H + 2 * G) * D + head * D
    x_D = tl.load(from_at + d_D, mask=real_D, other=0.0)
    if TURN:  # noqa: SIM102  # the second is known only on the device
        if head < H + G:
            other_D = tl.load(from_at + (d_D + D // 2) % D, mask=real_D, other=0.0).to(tl.float32)
            cos_D = tl.load(cos_at + token * D + d_D, mask=real_D, other=0.0).to(tl.float32)
            sin_D = tl.load(sin_at + token * D + d_D, mask=real_D, other=0.0).to(tl.float32)
            x_D = (x_D.to(tl.float32) * cos_D + other_D * sin_D).to(x_D.dtype)
    position = tl.minimum(tl.load(length_at + b) + t, C - 1)
    if head < H:
        tl.store(q_at + ((b * H + head) * T + t) * D + d_D, x_D, mask=real_D)
    elif head < H + G:
        tl.store(k_at + b * k_b + (head - H) * k_g + position * k_c + d_D, x_D, mask=real_D)
    else:
        tl.store(v_at + b * v_b + (head - H - G) * v_g + position * v_c + d_D, x_D, mask=real_D)
