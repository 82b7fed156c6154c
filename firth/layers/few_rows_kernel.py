"""The kernels of few_rows.py. Letters as there; K inputs of a product, N outputs of a program, P padded to a power of two."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from firth.layers.feedforward import GATED, Activation
from firth.layers.position import RotaryTurn
from firth.layers.state import FixedKeyValue


def product(
    x_BTd: Tensor,
    W_nd: Tensor,
    b_n: Tensor | None = None,
    *,
    norm: nn.Module | None = None,
    activation: Activation | None = None,
    residual: Tensor | None = None,
    tile: tuple[int, int, int] | None = None,
) -> Tensor:
    """residual + φ(W N(x) + b), any part of which may be missing. `tile`: outputs and inputs at a time, and warps."""
    B, T, K = x_BTd.shape
    gated = activation in GATED
    n = len(W_nd) // (2 if gated else 1)
    x_BTd, W_nd = x_BTd.contiguous(), W_nd.contiguous()
    y_BTn = torch.empty(B, T, n, dtype=x_BTd.dtype, device=x_BTd.device)
    outputs, inputs, warps = tile or _tile(n, K)
    gain, shift = (None, None) if norm is None else (norm.weight, getattr(norm, "bias", None))
    eps: Any = 0.0 if norm is None else norm.eps
    _product[(triton.cdiv(n, outputs),)](
        x_BTd,
        W_nd,
        y_BTn,
        *(x_BTd if given is None else given for given in (b_n, residual, gain, shift)),
        n,
        K,
        torch.finfo(x_BTd.dtype).eps if eps is None else eps,
        M=B * T,
        MP=triton.next_power_of_2(B * T),
        N=outputs,
        KB=inputs,
        NORM="none" if norm is None else "layer" if isinstance(norm, nn.LayerNorm) else "rms",
        ACTIVATION=activation or "none",
        GATED=gated,
        BIAS=b_n is not None,
        RESIDUAL=residual is not None,
        SHIFT=shift is not None,
        num_warps=warps,
    )
    return y_BTn


def place(qkv_BTn: Tensor, turn: RotaryTurn | None, past: FixedKeyValue, heads: int) -> Tensor:
    """q_BHTD, turned; k, turned, and v are written to the memory of `past`."""
    (B, T, _), (G, C, D) = qkv_BTn.shape, past.k_BGCD.shape[1:]
    q_BHTD = torch.empty(B, heads, T, D, dtype=qkv_BTn.dtype, device=qkv_BTn.device)
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
        num_warps=1,
    )
    return q_BHTD


def _tile(n: int, K: int) -> tuple[int, int, int]:
    """Enough programs for all processors of a GPU, each with enough to read at a time."""
    outputs = 16 if n >= 8192 else 8 if n >= 4096 else 4
    return outputs, 512, 4


@triton.jit
def _product(  # noqa: PLR0912
    x_at, W_at, y_at, b_at, residual_at, gain_at, shift_at, n, K, eps,
    M: tl.constexpr, MP: tl.constexpr, N: tl.constexpr, KB: tl.constexpr,
    NORM: tl.constexpr, ACTIVATION: tl.constexpr, GATED: tl.constexpr,
    BIAS: tl.constexpr, RESIDUAL: tl.constexpr, SHIFT: tl.constexpr,
):  # fmt: skip
    """All rows of x with N rows of W. Products are summed at the end, so that the loop only reads."""
    eps = tl.cast(eps, tl.float32)
    row_M, k_K = tl.arange(0, MP), tl.arange(0, KB)
    out_N = tl.program_id(0) * N + tl.arange(0, N)
    real_M, real_N = row_M < M, out_N < n
    mean_M, scale_M = tl.zeros([MP], tl.float32), tl.zeros([MP], tl.float32) + 1.0
    if NORM == "layer":
        sum_M = tl.zeros([MP], tl.float32)
        for at in range(0, K, KB):
            sum_M += tl.sum(_x(x_at, row_M, at + k_K, real_M, K), 1)
        mean_M = sum_M / K
    if NORM != "none":
        square_M = tl.zeros([MP], tl.float32)
        for at in range(0, K, KB):
            x_MK = tl.where((at + k_K < K)[None, :], _x(x_at, row_M, at + k_K, real_M, K) - mean_M[:, None], 0.0)
            square_M += tl.sum(x_MK * x_MK, 1)
        scale_M = 1.0 / tl.sqrt(square_M / K + eps)
    y_MNK = tl.zeros([MP, N, KB], tl.float32)
    gate_MNK = tl.zeros([MP, N, KB], tl.float32)
    for at in range(0, K, KB):
        column_K = at + k_K
        real_K = column_K < K
        x_MK = _x(x_at, row_M, column_K, real_M, K)
        if NORM != "none":
            gain_K = tl.load(gain_at + column_K, mask=real_K, other=0.0).to(tl.float32)
            x_MK = (x_MK - mean_M[:, None]) * scale_M[:, None] * gain_K[None, :]
            if SHIFT:
                x_MK += tl.load(shift_at + column_K, mask=real_K, other=0.0).to(tl.float32)[None, :]
        where_NK = out_N[:, None].to(tl.int64) * K + column_K[None, :]
        real_NK = real_N[:, None] & real_K[None, :]
        W_NK = tl.load(W_at + where_NK, mask=real_NK, other=0.0).to(tl.float32)
        if GATED:
            value_NK = tl.load(W_at + where_NK + n.to(tl.int64) * K, mask=real_NK, other=0.0).to(tl.float32)
            gate_MNK += x_MK[:, None, :] * W_NK[None, :, :]
            y_MNK += x_MK[:, None, :] * value_NK[None, :, :]
        else:
            y_MNK += x_MK[:, None, :] * W_NK[None, :, :]
    y_MN = tl.sum(y_MNK, 2)
    if GATED:
        gate_MN = tl.sum(gate_MNK, 2)
        if BIAS:
            gate_MN += tl.load(b_at + out_N, mask=real_N, other=0.0).to(tl.float32)[None, :]
            y_MN += tl.load(b_at + n + out_N, mask=real_N, other=0.0).to(tl.float32)[None, :]
        y_MN = _activated(gate_MN, ACTIVATION) * y_MN
    else:
        if BIAS:
            y_MN += tl.load(b_at + out_N, mask=real_N, other=0.0).to(tl.float32)[None, :]
        y_MN = _activated(y_MN, ACTIVATION)
    place_MN = row_M[:, None] * n + out_N[None, :]
    real_MN = real_M[:, None] & real_N[None, :]
    if RESIDUAL:
        y_MN += tl.load(residual_at + place_MN, mask=real_MN, other=0.0).to(tl.float32)
    tl.store(y_at + place_MN, y_MN.to(y_at.dtype.element_ty), mask=real_MN)


@triton.jit
def _x(x_at, row_M, column_K, real_M, K):
    real_MK = real_M[:, None] & (column_K < K)[None, :]
    return tl.load(x_at + row_M[:, None] * K + column_K[None, :], mask=real_MK, other=0.0).to(tl.float32)


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
    H: tl.constexpr, G: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, TURN: tl.constexpr,
):  # fmt: skip
    """One head of one token."""
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
