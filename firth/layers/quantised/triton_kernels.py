"""Triton kernels for few rows: y = x Wᵀ + b with W in int8 or int4, dequantised in registers.

`one_row`: a row of x is multiplied and summed in float32, and what stands around a product in a step of one text is computed with
it: y = r + φ(W N(x) + b), as in one_row_kernel.py. int4 needs one scale for G products,

    Σ_k W_nk x_k = Σ_c ( s_nc Σ_{k ∈ c} q_nk x_k  +  (m_nc − 8 s_nc) Σ_{k ∈ c} x_k )

`several_rows`: W in the type of x, y = W xᵀ by tensor cores. The columns are dealt out to S slices, one per warp, whose sums are
added at the end: few outputs alone would keep a GPU waiting for its memory.

The bytes of int4 hold columns j and j + P/2, P the columns with padding (rounding.py), so that both are read in order.

Letters: M rows of x, N outputs, K columns, C groups of columns, G columns of one group, R rows of W, S slices.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, index, operator, arg-type"

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from firth.layers.attention.fused.pieces import zero_matrix
from firth.layers.one_row_kernel import _activated, _moments


class Row(NamedTuple):
    """All constants that `one_row` is compiled for."""

    K: int
    G: int  # 0 for int8
    P: int  # K and padding: a multiple of 2 G
    KP: int  # K and padding: a power of two
    R: int  # rows of W in a program; with a gate, half of them are the gate's
    BLOCK: int  # columns, or groups of bytes, at a time
    NORM: str
    ACTIVATION: str
    GATED: bool
    BIAS: bool
    RESIDUAL: bool
    SHIFT: bool
    EARLY: bool


class Rows(NamedTuple):
    """All constants that `several_rows` is compiled for."""

    K: int
    G: int
    P: int
    M: int  # at least 16
    N: int
    S: int
    BLOCK: int  # columns or bytes of a slice at a time; those of one group for int4
    BIAS: bool
    EARLY: bool


@triton.jit
def one_row(x_at, W_at, scale_at, y_at, b_at, residual_at, gain_at, shift_at, n, eps, KIND: tl.constexpr):
    """`EARLY`: the kernel starts before the one whose x it needs has finished, and reads its
    first weights meanwhile."""
    r_R = tl.arange(0, KIND.R)
    if KIND.GATED:  # a row and its gate side by side
        out_R = tl.program_id(0) * (KIND.R // 2) + r_R // 2
        row_R = out_R + (r_R % 2) * n
    else:
        out_R = tl.program_id(0) * KIND.R + r_R
        row_R = out_R
    real_R = out_R < n
    if KIND.G == 0:
        y_R = _int8_row(x_at, W_at, row_R, real_R, gain_at, shift_at, eps, KIND)
        y_R *= tl.load(scale_at + row_R, mask=real_R, other=0.0)
    else:
        y_R = _int4_row(x_at, W_at, scale_at, row_R, real_R, gain_at, shift_at, eps, KIND)
    if KIND.BIAS:
        y_R += tl.load(b_at + row_R, mask=real_R, other=0.0).to(tl.float32)
    activation: tl.constexpr = KIND.ACTIVATION
    outputs: tl.constexpr = KIND.R // 2 if KIND.GATED else KIND.R
    if KIND.GATED:
        gate_N, value_N = tl.split(tl.reshape(y_R, (outputs, 2)))
        y_N = _activated(gate_N, activation) * value_N
    else:
        y_N = _activated(y_R, activation)
    out_N = tl.program_id(0) * outputs + tl.arange(0, outputs)
    if KIND.RESIDUAL:
        y_N += tl.load(residual_at + out_N, mask=out_N < n, other=0.0).to(tl.float32)
    tl.store(y_at + out_N, y_N.to(y_at.dtype.element_ty), mask=out_N < n)


@triton.jit
def _norm_of(x_at, eps, KIND: tl.constexpr):
    """μ and r of the norm, after all that x depends on."""
    if KIND.EARLY:
        gdc_launch_dependents()
        gdc_wait()
    norm: tl.constexpr = KIND.NORM
    mean, r = 0.0, 1.0
    if norm != "none":
        mean, r = _moments(x_at, KIND.K, eps, KIND.KP, norm)
    return mean, r


@triton.jit
def _normed(x_at, gain_at, shift_at, column, mean, r, KIND: tl.constexpr):
    """(x − μ) r ⊙ γ + β of some columns, 0 outside of x."""
    real = column < KIND.K
    x = tl.load(x_at + column, mask=real, other=0.0).to(tl.float32)
    if KIND.NORM != "none":
        x = (x - mean) * r * tl.load(gain_at + column, mask=real, other=0.0).to(tl.float32)
    if KIND.SHIFT:
        x += tl.load(shift_at + column, mask=real, other=0.0).to(tl.float32)
    return x


@triton.jit
def _int8_row(x_at, W_at, row_R, real_R, gain_at, shift_at, eps, KIND: tl.constexpr):
    k_K = tl.arange(0, KIND.BLOCK)
    W_RK_at = W_at + row_R.to(tl.int64)[:, None] * KIND.K + k_K[None, :]
    q_RK = tl.load(W_RK_at, mask=real_R[:, None] & (k_K < KIND.K)[None, :], other=0)
    mean, r = _norm_of(x_at, eps, KIND)
    y_RK = zero_matrix(KIND.R, KIND.BLOCK)
    for first in range(0, KIND.K, KIND.BLOCK):
        y_RK += q_RK.to(tl.float32) * _normed(x_at, gain_at, shift_at, first + k_K, mean, r, KIND)[None, :]
        following = first + KIND.BLOCK
        q_RK = tl.load(W_RK_at + following, mask=real_R[:, None] & (following + k_K < KIND.K)[None, :], other=0)
    return tl.sum(y_RK, 1)


@triton.jit
def _int4_row(x_at, W_at, scale_at, row_R, real_R, gain_at, shift_at, eps, KIND: tl.constexpr):
    half: tl.constexpr = KIND.P // 2
    groups: tl.constexpr = KIND.P // KIND.G
    c_C, g_G = tl.arange(0, KIND.BLOCK), tl.arange(0, KIND.G)
    byte_CG = c_C[:, None] * KIND.G + g_G[None, :]
    W_RCG_at = W_at + row_R.to(tl.int64)[:, None, None] * half + byte_CG[None, :, :]
    scale_RC_at = scale_at + row_R[:, None] * groups + c_C[None, :]
    q_RCG = tl.load(W_RCG_at, mask=real_R[:, None, None] & (byte_CG < half)[None, :, :], other=0)
    real_RC = real_R[:, None] & (c_C < groups // 2)[None, :]
    low_RC = tl.load(scale_RC_at, mask=real_RC, other=0)
    high_RC = tl.load(scale_RC_at + groups // 2, mask=real_RC, other=0)
    mean, r = _norm_of(x_at, eps, KIND)
    y_RC = zero_matrix(KIND.R, KIND.BLOCK)
    for first in range(0, groups // 2, KIND.BLOCK):
        column_CG = first * KIND.G + byte_CG
        x_CG = _normed(x_at, gain_at, shift_at, column_CG, mean, r, KIND)
        y_RC += _of_groups((q_RCG & 15).to(tl.float32), x_CG, low_RC)
        x_CG = _normed(x_at, gain_at, shift_at, half + column_CG, mean, r, KIND)
        y_RC += _of_groups((q_RCG >> 4).to(tl.float32), x_CG, high_RC)
        following = first + KIND.BLOCK
        there_CG = following * KIND.G + byte_CG < half
        q_RCG = tl.load(W_RCG_at + following * KIND.G, mask=real_R[:, None, None] & there_CG[None, :, :], other=0)
        real_RC = real_R[:, None] & (following + c_C < groups // 2)[None, :]
        low_RC = tl.load(scale_RC_at + following, mask=real_RC, other=0)
        high_RC = tl.load(scale_RC_at + following + groups // 2, mask=real_RC, other=0)
    return tl.sum(y_RC, 1)


@triton.jit
def _of_groups(q_RCG, x_CG, scale_and_m_RC):
    s_RC, offset_RC = _scale_and_offset(scale_and_m_RC)
    return s_RC * tl.sum(q_RCG * x_CG[None, :, :], 2) + offset_RC * tl.sum(x_CG, 1)[None, :]


@triton.jit
def _scale_and_offset(both):
    """s and m − 8 s. Two numbers in bfloat16 that lie side by side are the halves of 32 bits."""
    s = (both << 16).to(tl.float32, bitcast=True)
    m = (both & -65536).to(tl.float32, bitcast=True)
    return s, m - 8.0 * s


@triton.jit
def several_rows(x_at, W_at, scale_at, b_at, y_at, M, N, KIND: tl.constexpr):
    if KIND.EARLY:
        gdc_launch_dependents()
        gdc_wait()
    n_N, m_M = tl.program_id(0) * KIND.N + tl.arange(0, KIND.N), tl.arange(0, KIND.M)
    if KIND.G == 0:
        y_NM = _int8_rows(x_at, W_at, n_N, m_M, M, N, KIND) * tl.load(scale_at + n_N, mask=n_N < N, other=0.0)[:, None]
    else:
        y_NM = _int4_rows(x_at, W_at, scale_at, n_N, m_M, M, N, KIND)
    if KIND.BIAS:
        y_NM += tl.load(b_at + n_N, mask=n_N < N, other=0.0).to(tl.float32)[:, None]
    real_NM = (n_N[:, None] < N) & (m_M[None, :] < M)
    tl.store(y_at + m_M[None, :] * N + n_N[:, None], y_NM.to(y_at.dtype.element_ty), mask=real_NM)


@triton.jit
def _zeros(S: tl.constexpr, N: tl.constexpr, M: tl.constexpr):
    return tl.zeros((S, N, M), tl.float32)


@triton.jit
def _int8_rows(x_at, W_at, n_N, m_M, M, N, KIND: tl.constexpr):
    at_SK = tl.arange(0, KIND.S)[:, None] * KIND.BLOCK + tl.arange(0, KIND.BLOCK)[None, :]
    W_N_at = W_at + n_N.to(tl.int64)[None, :, None] * KIND.K
    y_SNM = _zeros(KIND.S, KIND.N, KIND.M)
    for first in range(0, KIND.K, KIND.S * KIND.BLOCK):
        k_SK = first + at_SK
        q_SNK = tl.load(W_N_at + k_SK[:, None, :], mask=(n_N[None, :, None] < N) & (k_SK < KIND.K)[:, None, :], other=0)
        x_SKM = _columns(x_at, m_M, k_SK, M, KIND)
        y_SNM = tl.dot(q_SNK.to(x_SKM.dtype), x_SKM, y_SNM, input_precision="ieee")
    return tl.sum(y_SNM, 0)


@triton.jit
def _columns(x_at, m_M, k_SK, M, KIND: tl.constexpr):
    """Columns of x, a block per slice, and 0 outside of x."""
    real_SMK = (m_M[None, :, None] < M) & (k_SK < KIND.K)[:, None, :]
    return tl.permute(tl.load(x_at + m_M[None, :, None] * KIND.K + k_SK[:, None, :], mask=real_SMK, other=0.0), (0, 2, 1))


@triton.jit
def _int4_rows(x_at, W_at, scale_at, n_N, m_M, M, N, KIND: tl.constexpr):
    half: tl.constexpr = KIND.P // 2
    groups: tl.constexpr = KIND.P // KIND.G
    s_S, at_K = tl.arange(0, KIND.S), tl.arange(0, KIND.G)
    W_N_at = W_at + n_N.to(tl.int64)[None, :, None] * half
    y_SNM = _zeros(KIND.S, KIND.N, KIND.M)
    for first in range(0, groups // 2, KIND.S):
        c_S = first + s_S
        byte_SK = c_S[:, None] * KIND.G + at_K[None, :]
        q_SNK = tl.load(W_N_at + byte_SK[:, None, :], mask=(n_N[None, :, None] < N) & (byte_SK < half)[:, None, :], other=0)
        there_SN = (n_N[None, :] < N) & (c_S < groups // 2)[:, None]
        scale_SN_at = scale_at + n_N[None, :] * groups + c_S[:, None]
        low_SN = tl.load(scale_SN_at, mask=there_SN, other=0)
        high_SN = tl.load(scale_SN_at + groups // 2, mask=there_SN, other=0)
        x_SKM = _columns(x_at, m_M, byte_SK, M, KIND)
        W_SNK = _dequantised((q_SNK & 15).to(tl.float32), low_SN).to(x_SKM.dtype)
        y_SNM = tl.dot(W_SNK, x_SKM, y_SNM, input_precision="ieee")
        x_SKM = _columns(x_at, m_M, half + byte_SK, M, KIND)
        W_SNK = _dequantised((q_SNK >> 4).to(tl.float32), high_SN).to(x_SKM.dtype)
        y_SNM = tl.dot(W_SNK, x_SKM, y_SNM, input_precision="ieee")
    return tl.sum(y_SNM, 0)


@triton.jit
def _dequantised(q_SNK, scale_and_m_SN):
    s_SN, offset_SN = _scale_and_offset(scale_and_m_SN)
    return q_SNK * s_SN[:, :, None] + offset_SN[:, :, None]
