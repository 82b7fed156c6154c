"""Triton kernels for few rows: y = x Wᵀ + b with W in int8 or int4, dequantised in registers.

One row: a row of x is multiplied and summed in float32, and what stands around a product in a step of one text is computed with
it: y = r + φ(W N(x) + b), as in one_row.py. int4 needs one scale for G products,

    Σ_k W_nk x_k = Σ_c ( s_nc Σ_{k ∈ c} q_nk x_k  +  (m_nc − 8 s_nc) Σ_{k ∈ c} x_k )

Several rows: W in the type of x, y = W xᵀ by tensor cores. The columns are dealt out to S slices, one per warp, whose sums are
added at the end: few outputs alone would keep a GPU waiting for its memory.

More rows: W itself, for so many that a product by cuBLAS is faster in spite of it.

The bytes of int4 hold columns j and j + P/2, P the columns with padding (rounding.py), so that both are read in order.

Letters: M rows of x, N outputs, K columns, C groups of columns, G columns of one group, R rows of W, S slices.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, index, operator, arg-type"

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.layers.activation import is_gated
from firth.layers.kernels.triton.lazy import gdc_launch_dependents, gdc_wait, import_triton, jit, late, tl
from firth.layers.kernels.triton.pieces import activated, moments, starts_early

MOST_ROWS = 64  # of x; more are multiplied with a dequantised copy by cuBLAS
_TRITON, _INTERPRETED = find_spec("triton") is not None, os.environ.get("TRITON_INTERPRET") == "1"
_MANY = 8192  # outputs, which fill a GPU by themselves
_ONE = 0x3F800000  # 1.0 in float32
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)

zero_matrix, zero_vector = (late("firth.layers.kernels.attention.pieces", name) for name in ("zero_matrix", "zero_vector"))


class OneRowConstants(NamedTuple):
    """All constants that `one_row_kernel` is compiled for."""

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


class SeveralRowsConstants(NamedTuple):
    """All constants that `several_rows_kernel` is compiled for."""

    K: int
    G: int
    P: int
    M: int  # at least 16
    N: int
    S: int
    BLOCK: int  # columns or bytes of a slice at a time; those of one group for int4
    BIAS: bool
    EARLY: bool


class DequantiseConstants(NamedTuple):
    """All constants that `dequantise_kernel` is compiled for."""

    K: int
    G: int
    P: int
    BLOCK: int  # columns or bytes at a time


def why_not(x_MK: Tensor) -> str | None:
    if not _TRITON:
        return "triton is not installed"
    if not x_MK.is_cuda and not _INTERPRETED:
        return f"Triton kernels need a GPU; x is on {x_MK.device.type}"
    if x_MK.dtype not in _DTYPES:
        return f"the kernels compute in float32, bfloat16 and float16; x is {x_MK.dtype}"
    return None


def linear(x_MK: Tensor, W: Tensor, scale: Tensor, bias_N: Tensor | None, group: int) -> Tensor:
    """x Wᵀ + b, with q_NK and s_N of int8 (group = 0), or the output of rounding.pack for int4."""
    run: Any = _operator if torch.compiler.is_compiling() else _linear
    y_MN: Tensor = run(x_MK, W, scale, bias_N, group)
    return y_MN


def _linear(x_MK: Tensor, W: Tensor, scale: Tensor, bias_N: Tensor | None, group: int) -> Tensor:
    if 0 < len(x_MK) <= MOST_ROWS:
        run = one_row if len(x_MK) == 1 else _several_rows
        return run(x_MK, W, scale, bias_N, group)
    W_NK = dequantised(W, scale, x_MK.shape[1], group, x_MK.dtype)
    return F.linear(x_MK, W_NK, None if bias_N is None else bias_N.to(x_MK.dtype))


def one_row(
    x_1K: Tensor,
    W: Tensor,
    scale: Tensor,
    bias_N: Tensor | None,
    group: int,
    *,
    norm: nn.Module | None = None,
    activation: Any = None,
    residual: Tensor | None = None,
) -> Tensor:
    """residual + φ(W N(x) + b), any part of which may be missing."""
    import_triton(__name__)
    K, gated = x_1K.shape[1], is_gated(activation)
    n = len(W) // (2 if gated else 1)
    x_1K, y_1N, early = x_1K.contiguous(), x_1K.new_empty(1, n), starts_early(x_1K)
    rows, block, warps = tile_of_a_row(len(W), K, group)
    gain, shift = (None, None) if norm is None else (norm.weight, getattr(norm, "bias", None))
    eps: Any = 0.0 if norm is None else norm.eps
    kind = OneRowConstants(
        K, group, _padded(K, group), _power_of_two(K), rows, block,
        "none" if norm is None else "layer" if isinstance(norm, nn.LayerNorm) else "rms",
        activation or "none", gated, bias_N is not None, residual is not None, shift is not None, early,
    )  # fmt: skip
    around = (x_1K if given is None else given for given in (bias_N, residual, gain, shift))
    args = (x_1K, _words(W), _words(scale), y_1N, *around, n, torch.finfo(x_1K.dtype).eps if eps is None else eps, _ONE)
    _run(one_row_kernel, -(-n // (rows // 2 if gated else rows)), args, kind, early, num_warps=warps)
    return y_1N


def _several_rows(x_MK: Tensor, W: Tensor, scale: Tensor, bias_N: Tensor | None, group: int) -> Tensor:
    import_triton(__name__)
    x_MK, (M, K), N = x_MK.contiguous(), x_MK.shape, len(W)
    y_MN, early = x_MK.new_empty(M, N), starts_early(x_MK)
    outputs, slices, block, stages = tile_of_rows(M, N, K, group, x_MK.dtype)
    rows = max(16, _power_of_two(M))
    kind = SeveralRowsConstants(K, group, _padded(K, group), rows, outputs, slices, block, bias_N is not None, early)
    args = (x_MK, W, _words(scale), y_MN if bias_N is None else bias_N, y_MN, M, N)
    _run(several_rows_kernel, -(-N // outputs), args, kind, early, num_warps=max(4, slices), num_stages=stages)
    return y_MN


def dequantised(W: Tensor, scale: Tensor, K: int, group: int, dtype: torch.dtype) -> Tensor:
    """W_NK in a type of floating point."""
    import_triton(__name__)
    W_NK = torch.empty(len(W), K, dtype=dtype, device=W.device)
    kind = DequantiseConstants(K, group, _padded(K, group), min(1024, _power_of_two(W.shape[1])))
    _run(dequantise_kernel, len(W), (W, _words(scale), W_NK), kind, early=False, num_warps=4)
    return W_NK


def _run(kernel: Any, programs: int, args: tuple[Any, ...], kind: Any, early: bool, **options: int) -> None:
    from firth.layers.kernels.attention.launch import launch

    with torch.cuda.device_of(args[0]):
        launch(kernel, programs, args[0].get_device(), args, kind, **options, **({"launch_pdl": True} if early else {}))


def tile_of_a_row(N: int, K: int, group: int) -> tuple[int, int, int]:
    """Rows of W, columns or groups of bytes at a time, and warps. Measured on an H200, as those of several rows: LOG.md, "int8
    and int4 weights on a GPU"."""
    many = N >= _MANY
    if not group:
        block = min(_power_of_two(K), 2048)
        if many:
            return (8, min(block, 512), 4) if K <= 1024 else (4, 1024, 4)
        return (4, block, 4) if K <= 1024 else (2, block, 8 if N <= 1024 else 4)
    groups = _padded(K, group) // (2 * group)
    if many:
        return 16, min(_power_of_two(groups), 16), 4
    return (4, _power_of_two(groups), 4 if groups <= 16 else 8) if groups <= 32 else (8, 64, 8)


def tile_of_rows(M: int, N: int, K: int, group: int, dtype: torch.dtype) -> tuple[int, int, int, int]:
    """Outputs, slices, columns or bytes at a time, and stages."""
    if dtype == torch.float32:  # which has no tensor cores
        return 16, 1, group or 64, 3
    many, few_rows = N >= _MANY, M <= 16
    if group:
        return (32, 4, group, 3) if many or few_rows else (16, 4, group, 3 if group > 32 else 5)
    if many:
        return 32, 4, 128 if N < 2 * _MANY and few_rows else 64, 3
    if few_rows:
        return (32, 4, 128, 5) if K <= 2048 else (16, 4, 128, 3)
    return (32, 4, 64, 5) if K <= 1024 else (16, 4, 128, 3)


def _words(words: Tensor) -> Tensor:
    """Packed bytes, and s and m side by side, as words of 32 bits."""
    return words.view(torch.int32) if words.dtype in (torch.uint8, torch.bfloat16) else words


def _padded(K: int, group: int) -> int:
    return -(-K // (2 * group)) * 2 * group if group else K


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


_operator: Any = torch.library.custom_op("firth::quantised_linear", _linear, mutates_args=())
_operator.register_fake(lambda x_MK, W, *others: x_MK.new_empty(x_MK.shape[0], W.shape[0]))


@jit(do_not_specialize=["n", "one"])
def one_row_kernel(x_at, W_at, scale_at, y_at, b_at, residual_at, gain_at, shift_at, n, eps, one, KIND: tl.constexpr):
    """`EARLY`: the kernel starts before the one whose x it needs has finished, and reads its
    first weights meanwhile. `one`: the bits of 1.0; with a second constant, & and | would be two instructions."""
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
        y_R = _int4_row(x_at, W_at, scale_at, row_R, real_R, gain_at, shift_at, eps, one, KIND)
    if KIND.BIAS:
        y_R += tl.load(b_at + row_R, mask=real_R, other=0.0).to(tl.float32)
    activation: tl.constexpr = KIND.ACTIVATION
    outputs: tl.constexpr = KIND.R // 2 if KIND.GATED else KIND.R
    if KIND.GATED:
        gate_N, value_N = tl.split(tl.reshape(y_R, (outputs, 2)))
        y_N = activated(gate_N, activation) * value_N
    else:
        y_N = activated(y_R, activation)
    out_N = tl.program_id(0) * outputs + tl.arange(0, outputs)
    if KIND.RESIDUAL:
        y_N += tl.load(residual_at + out_N, mask=out_N < n, other=0.0).to(tl.float32)
    tl.store(y_at + out_N, y_N.to(y_at.dtype.element_ty), mask=out_N < n)


@jit
def _mean_and_scale(x_at, eps, KIND: tl.constexpr):
    """μ and r of LayerNorm, after all that x depends on. r of RMSNorm multiplies the sum, and is summed with it."""
    if KIND.EARLY:
        gdc_launch_dependents()
        gdc_wait()
    mean, r = 0.0, 1.0
    if KIND.NORM == "layer":
        mean, r = moments(x_at, KIND.K, eps, KIND.KP, "layer")
    return mean, r


@jit
def _normed(x_at, gain_at, shift_at, column, mean, r, KIND: tl.constexpr):
    """(x − μ) r ⊙ γ + β of some columns, and x². Both are 0 outside of x."""
    real = column < KIND.K
    x = tl.load(x_at + column, mask=real, other=0.0).to(tl.float32)
    y = x
    if KIND.NORM != "none":
        y = (x - mean) * r * tl.load(gain_at + column, mask=real, other=0.0).to(tl.float32)
    if KIND.SHIFT:
        y += tl.load(shift_at + column, mask=real, other=0.0).to(tl.float32)
    return y, x * x


@jit
def _scaled(y_R, square, eps, KIND: tl.constexpr):
    """RMSNorm's r y."""
    if KIND.NORM == "rms":
        y_R *= 1.0 / tl.sqrt(tl.sum(square) / KIND.K + tl.cast(eps, tl.float32))
    return y_R


@jit
def _int8_row(x_at, W_at, row_R, real_R, gain_at, shift_at, eps, KIND: tl.constexpr):
    k_K = tl.arange(0, KIND.BLOCK)
    W_RK_at = W_at + row_R.to(tl.int64)[:, None] * KIND.K + k_K[None, :]
    q_RK = tl.load(W_RK_at, mask=real_R[:, None] & (k_K < KIND.K)[None, :], other=0)
    mean, r = _mean_and_scale(x_at, eps, KIND)
    y_RK, square_K = zero_matrix(KIND.R, KIND.BLOCK), zero_vector(KIND.BLOCK)
    for first in range(0, KIND.K, KIND.BLOCK):
        x_K, more_K = _normed(x_at, gain_at, shift_at, first + k_K, mean, r, KIND)
        y_RK += q_RK.to(tl.float32) * x_K[None, :]
        square_K += more_K
        following = first + KIND.BLOCK
        q_RK = tl.load(W_RK_at + following, mask=real_R[:, None] & (following + k_K < KIND.K)[None, :], other=0)
    return _scaled(tl.sum(y_RK, 1), square_K, eps, KIND)


@jit
def _int4_row(x_at, W_at, scale_at, row_R, real_R, gain_at, shift_at, eps, one, KIND: tl.constexpr):
    """In words of four bytes, T of which have the scales of a group: one instruction makes a float of a nibble."""
    exact: tl.constexpr = x_at.dtype.element_ty == tl.float32
    words: tl.constexpr = KIND.G // 4
    half: tl.constexpr = KIND.P // 2
    groups: tl.constexpr = half // KIND.G
    c_C = tl.arange(0, KIND.BLOCK)
    word_CT = c_C[:, None] * words + tl.arange(0, words)[None, :]
    column_CG = c_C[:, None] * KIND.G + tl.arange(0, KIND.G)[None, :]
    W_RCT_at = W_at + row_R.to(tl.int64)[:, None, None] * (half // 4) + word_CT[None, :, :]
    scale_RC_at = scale_at + row_R[:, None] * (2 * groups) + c_C[None, :]
    there_RC = real_R[:, None] & (c_C < groups)[None, :]
    q_RCT = tl.load(W_RCT_at, mask=there_RC[:, :, None], other=0)
    low_RC = tl.load(scale_RC_at, mask=there_RC, other=0)
    high_RC = tl.load(scale_RC_at + groups, mask=there_RC, other=0)
    mean, r = _mean_and_scale(x_at, eps, KIND)
    y_RC, square_CG = zero_matrix(KIND.R, KIND.BLOCK), zero_matrix(KIND.BLOCK, KIND.G)
    for first in range(0, groups, KIND.BLOCK):
        x_CG, more_CG = _normed(x_at, gain_at, shift_at, first * KIND.G + column_CG, mean, r, KIND)
        y_RC += _of_groups(q_RCT, x_CG, low_RC, one, 0, exact, KIND)
        square_CG += more_CG
        x_CG, more_CG = _normed(x_at, gain_at, shift_at, half + first * KIND.G + column_CG, mean, r, KIND)
        y_RC += _of_groups(q_RCT, x_CG, high_RC, one, 4, exact, KIND)
        square_CG += more_CG
        following = first + KIND.BLOCK
        there_RC = real_R[:, None] & (following + c_C < groups)[None, :]
        q_RCT = tl.load(W_RCT_at + following * words, mask=there_RC[:, :, None], other=0)
        low_RC = tl.load(scale_RC_at + following, mask=there_RC, other=0)
        high_RC = tl.load(scale_RC_at + following + groups, mask=there_RC, other=0)
    return _scaled(tl.sum(y_RC, 1), square_CG, eps, KIND)


@jit
def _of_groups(q_RCT, x_CG, scale_and_m_RC, one, FIRST: tl.constexpr, EXACT: tl.constexpr, KIND: tl.constexpr):
    """s Σ (q − 8) x + m Σ x of the nibbles that begin at bit FIRST of each byte, where (q − 8) x = 16 ((1 + q/16) x − 3/2 x).

    3/2 x is subtracted for four columns at once, which costs the sum some bits: too many if x is in float32 (`EXACT`)."""
    columns: tl.constexpr = KIND.BLOCK
    words: tl.constexpr = KIND.G // 4
    s_RC, m_RC = _scale_and_middle(scale_and_m_RC)
    x02, x13 = tl.split(tl.reshape(x_CG, (columns, words, 2, 2)))
    x0_CT, x2_CT = tl.split(x02)
    x1_CT, x3_CT = tl.split(x13)
    y_RCT = _sixteenths(q_RCT << (19 - FIRST), one, EXACT) * x0_CT[None, :, :]
    if not EXACT:
        y_RCT -= (1.5 * ((x0_CT + x1_CT) + (x2_CT + x3_CT)))[None, :, :]
    y_RCT += _sixteenths(q_RCT << (11 - FIRST), one, EXACT) * x1_CT[None, :, :]
    if FIRST == 0:
        y_RCT += _sixteenths(q_RCT << 3, one, EXACT) * x2_CT[None, :, :]
    else:
        y_RCT += _sixteenths(q_RCT >> 1, one, EXACT) * x2_CT[None, :, :]
    y_RCT += _sixteenths(q_RCT >> (5 + FIRST), one, EXACT) * x3_CT[None, :, :]
    return 16.0 * s_RC * tl.sum(y_RCT, 2) + m_RC * tl.sum(x_CG, 1)[None, :]


@jit
def _sixteenths(word, one, EXACT: tl.constexpr):
    """1 + q/16 of the q in bits 19 to 22, the first bits of a mantissa; if EXACT, (q − 8)/16."""
    y = ((word & 0x00780000) | one).to(tl.float32, bitcast=True)
    if EXACT:
        y -= 1.5
    return y


@jit
def _scale_and_middle(both):
    """s and m. Two numbers in bfloat16 that lie side by side are the halves of 32 bits."""
    return (both << 16).to(tl.float32, bitcast=True), (both & -65536).to(tl.float32, bitcast=True)


@jit(do_not_specialize=["M", "N"])
def several_rows_kernel(x_at, W_at, scale_at, b_at, y_at, M, N, KIND: tl.constexpr):
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


@jit
def _int8_rows(x_at, W_at, n_N, m_M, M, N, KIND: tl.constexpr):
    y = _sums(KIND)
    for first in range(0, KIND.K, KIND.S * KIND.BLOCK):
        n, m, k, _ = _axes(n_N, m_M, first, KIND.BLOCK, KIND)
        q = tl.load(W_at + n.to(tl.int64) * KIND.K + k, mask=(n < N) & (k < KIND.K), other=0)
        x = tl.load(x_at + m * KIND.K + k, mask=(m < M) & (k < KIND.K), other=0.0)
        y = tl.dot(q.to(x.dtype), _turned(x, KIND), y, input_precision="ieee")
    return tl.sum(y, 0) if KIND.S > 1 else y


@jit
def _int4_rows(x_at, W_at, scale_at, n_N, m_M, M, N, KIND: tl.constexpr):
    half: tl.constexpr = KIND.P // 2
    groups: tl.constexpr = half // KIND.G
    y = _sums(KIND)
    for first in range(0, half, KIND.S * KIND.G):
        n, m, k, c = _axes(n_N, m_M, first, KIND.G, KIND)
        q = tl.load(W_at + n.to(tl.int64) * half + k, mask=(n < N) & (k < half), other=0)
        scale_at_n = scale_at + n * (2 * groups) + c
        low = tl.load(scale_at_n, mask=(n < N) & (c < groups), other=0)
        high = tl.load(scale_at_n + groups, mask=(n < N) & (c < groups), other=0)
        x_low = tl.load(x_at + m * KIND.K + k, mask=(m < M) & (k < KIND.K), other=0.0)
        x_high = tl.load(x_at + m * KIND.K + half + k, mask=(m < M) & (half + k < KIND.K), other=0.0)
        y = tl.dot(_levels(q, low, 0, x_low.dtype), _turned(x_low, KIND), y, input_precision="ieee")
        y = tl.dot(_levels(q, high, 4, x_low.dtype), _turned(x_high, KIND), y, input_precision="ieee")
    return tl.sum(y, 0) if KIND.S > 1 else y


@jit
def _sums(KIND: tl.constexpr):
    return _zeros(KIND.S, KIND.N, KIND.M) if KIND.S > 1 else zero_matrix(KIND.N, KIND.M)


@jit
def _zeros(S: tl.constexpr, N: tl.constexpr, M: tl.constexpr):
    return tl.zeros((S, N, M), tl.float32)


@jit
def _axes(n_N, m_M, first, BLOCK: tl.constexpr, KIND: tl.constexpr):
    """n, m, columns or bytes and the groups of these, as axes of S,N,K and S,M,K; without S if there is only one slice."""
    if KIND.S > 1:
        s_S11 = tl.arange(0, KIND.S)[:, None, None]
        k_SK = first + s_S11 * BLOCK + tl.arange(0, BLOCK)[None, None, :]
        return n_N[None, :, None], m_M[None, :, None], k_SK, first // BLOCK + s_S11
    else:
        return n_N[:, None], m_M[:, None], (first + tl.arange(0, BLOCK))[None, :], tl.full((1, 1), first // BLOCK, tl.int32)


@jit
def _turned(x, KIND: tl.constexpr):
    return tl.permute(x, (0, 2, 1)) if KIND.S > 1 else tl.trans(x)


@jit
def _levels(q, scale_and_m, FIRST: tl.constexpr, dtype: tl.constexpr):
    """s (q − 8) + m of the nibbles that begin at bit FIRST."""
    s, m = _scale_and_middle(scale_and_m)
    if dtype == tl.bfloat16:
        return _four_levels(q, s.to(tl.bfloat16), m.to(tl.bfloat16), FIRST)
    else:
        return (((q >> FIRST) & 15).to(tl.float32) * s + (m - 8.0 * s)).to(dtype)


@jit
def _four_levels(q, s, m, FIRST: tl.constexpr):
    """The same in bfloat16, four at a time: 0x4300 | q are the bits of 128 + q."""
    shift: tl.constexpr = "shr.b32 t, $2, 4; and.b32 t, t, 0x0F0F0F0F;" if FIRST else "and.b32 t, $2, 0x0F0F0F0F;"
    asm: tl.constexpr = (
        "{ .reg .b32 t, a, b, c; mov.b32 c, 0x43084308; "
        + shift
        + """
        prmt.b32 a, t, 0x43434343, 0x4140;
        prmt.b32 b, t, 0x43434343, 0x4342;
        sub.rn.bf16x2 a, a, c;
        sub.rn.bf16x2 b, b, c;
        fma.rn.bf16x2 $0, a, $3, $5;
        fma.rn.bf16x2 $1, b, $4, $6; }"""
    )
    return tl.inline_asm_elementwise(asm, "=r,=r,r,r,r,r,r", [q, s, m], dtype=tl.bfloat16, is_pure=True, pack=4)


@jit
def dequantise_kernel(W_at, scale_at, y_at, KIND: tl.constexpr):
    """A row of W in the type of y: s q, or s (q − 8) + m."""
    row, b_B = tl.program_id(0).to(tl.int64), tl.arange(0, KIND.BLOCK)
    half: tl.constexpr = KIND.P // 2
    groups: tl.constexpr = half // KIND.G if KIND.G else 1
    y_at += row * KIND.K
    if KIND.G == 0:
        s = tl.load(scale_at + row)
        for first in range(0, KIND.K, KIND.BLOCK):
            k_B = first + b_B
            q_B = tl.load(W_at + row * KIND.K + k_B, mask=k_B < KIND.K, other=0)
            tl.store(y_at + k_B, (q_B.to(tl.float32) * s).to(y_at.dtype.element_ty), mask=k_B < KIND.K)
    else:
        for first in range(0, half, KIND.BLOCK):
            k_B = first + b_B
            low_B, high_B = k_B < half, (k_B < half) & (half + k_B < KIND.K)
            q_B = tl.load(W_at + row * half + k_B, mask=low_B, other=0)
            scale_B_at = scale_at + row * (2 * groups) + k_B // KIND.G
            W_B = _of_level(q_B & 15, tl.load(scale_B_at, mask=low_B, other=0))
            tl.store(y_at + k_B, W_B.to(y_at.dtype.element_ty), mask=low_B & (k_B < KIND.K))
            W_B = _of_level(q_B >> 4, tl.load(scale_B_at + groups, mask=high_B, other=0))
            tl.store(y_at + half + k_B, W_B.to(y_at.dtype.element_ty), mask=high_B)


@jit
def _of_level(q_B, scale_and_m_B):
    s_B, m_B = _scale_and_middle(scale_and_m_B)
    return (q_B.to(tl.float32) - 8.0) * s_B + m_B
