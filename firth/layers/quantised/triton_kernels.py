"""Triton kernels for few rows: y = x Wᵀ + b with W in int8 or int4, dequantised in registers.

Each program computes all M rows of BLOCK_N outputs: it reads its rows of W once. One row of x is multiplied and summed in
float32; several go through `tl.dot`, W in the type of x. An int8 q is exact in every type, and s multiplies the sum.

Letters: M rows of x, N outputs, K columns, C groups of columns, G columns of one group.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, index, operator, arg-type"

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl

from firth.layers.attention.fused.pieces import zero_matrix


class Kind(NamedTuple):
    """All constants that a kernel is compiled for."""

    K: int
    BLOCK_M: int  # 1, or at least 16
    BLOCK_N: int
    BLOCK_K: int  # for int4: bytes, half as many as columns
    G: int  # 0 for int8
    BIAS: bool


@triton.jit
def _store(y, acc, bias, m, n, M, N, KIND: tl.constexpr):
    """acc_mn + b_n, in the type of y."""
    if KIND.BIAS:
        acc += tl.load(bias + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    tl.store(y + m[:, None] * N + n[None, :], acc.to(y.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def int8_kernel(x, q, scale, bias, y, M, N, KIND: tl.constexpr):
    n, m = tl.program_id(0) * KIND.BLOCK_N + tl.arange(0, KIND.BLOCK_N), tl.arange(0, KIND.BLOCK_M)
    k = tl.arange(0, KIND.BLOCK_K)
    rows = q + n.to(tl.int64)[:, None] * KIND.K
    if KIND.BLOCK_M == 1:
        part = zero_matrix(KIND.BLOCK_N, KIND.BLOCK_K)
        for first in range(0, KIND.K, KIND.BLOCK_K):
            column = first + k
            w = tl.load(rows + column[None, :], mask=(n[:, None] < N) & (column[None, :] < KIND.K), other=0)
            part += w.to(tl.float32) * tl.load(x + column, mask=column < KIND.K, other=0.0).to(tl.float32)[None, :]
        acc = tl.sum(part, 1)[None, :]
    else:
        acc = zero_matrix(KIND.BLOCK_M, KIND.BLOCK_N)
        for first in range(0, KIND.K, KIND.BLOCK_K):
            column = first + k
            w = tl.load(rows + column[None, :], mask=(n[:, None] < N) & (column[None, :] < KIND.K), other=0)
            a = tl.load(x + m[:, None] * KIND.K + column[None, :], mask=(m[:, None] < M) & (column[None, :] < KIND.K), other=0.0)
            acc = tl.dot(a, w.to(a.dtype).trans(), acc, input_precision="ieee")
    acc = acc * tl.load(scale + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    _store(y, acc, bias, m, n, M, N, KIND)


@triton.jit
def _halves(rows, scale, middle, n, byte, N, KIND: tl.constexpr):
    """W of the even and of the odd columns of a block, in float32: s (q − 8) + m, and 0 outside of W."""
    groups: tl.constexpr = (KIND.K + KIND.G - 1) // KIND.G
    there = (n[:, None] < N) & (byte[None, :] < groups * KIND.G // 2)
    both = tl.load(rows + byte[None, :], mask=there, other=0)
    at = n.to(tl.int64)[:, None] * groups + (2 * byte // KIND.G)[None, :]
    s = tl.load(scale + at, mask=there, other=0.0).to(tl.float32)
    centre = tl.load(middle + at, mask=there, other=0.0).to(tl.float32)
    even = ((both & 15).to(tl.float32) - 8.0) * s + centre
    odd = ((both >> 4).to(tl.float32) - 8.0) * s + centre
    return even, odd


@triton.jit
def int4_kernel(x, packed, scale, middle, bias, y, M, N, KIND: tl.constexpr):
    n, m = tl.program_id(0) * KIND.BLOCK_N + tl.arange(0, KIND.BLOCK_N), tl.arange(0, KIND.BLOCK_M)
    j = tl.arange(0, KIND.BLOCK_K)
    groups: tl.constexpr = (KIND.K + KIND.G - 1) // KIND.G
    rows = packed + n.to(tl.int64)[:, None] * (groups * KIND.G // 2)
    if KIND.BLOCK_M == 1:
        part = zero_matrix(KIND.BLOCK_N, KIND.BLOCK_K)
        for first in range(0, (KIND.K + 1) // 2, KIND.BLOCK_K):
            byte = first + j
            even, odd = _halves(rows, scale, middle, n, byte, N, KIND)
            part += even * tl.load(x + 2 * byte, mask=2 * byte < KIND.K, other=0.0).to(tl.float32)[None, :]
            part += odd * tl.load(x + 2 * byte + 1, mask=2 * byte + 1 < KIND.K, other=0.0).to(tl.float32)[None, :]
        acc = tl.sum(part, 1)[None, :]
    else:
        acc = zero_matrix(KIND.BLOCK_M, KIND.BLOCK_N)
        for first in range(0, (KIND.K + 1) // 2, KIND.BLOCK_K):
            byte = first + j
            even, odd = _halves(rows, scale, middle, n, byte, N, KIND)
            at = x + m[:, None] * KIND.K + 2 * byte[None, :]
            a = tl.load(at, mask=(m[:, None] < M) & (2 * byte[None, :] < KIND.K), other=0.0)
            b = tl.load(at + 1, mask=(m[:, None] < M) & (2 * byte[None, :] + 1 < KIND.K), other=0.0)
            acc = tl.dot(a, even.to(a.dtype).trans(), acc, input_precision="ieee")
            acc = tl.dot(b, odd.to(a.dtype).trans(), acc, input_precision="ieee")
    _store(y, acc, bias, m, n, M, N, KIND)
