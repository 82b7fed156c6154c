"""The Triton kernels as operations, in eager mode, in a CUDA graph and under torch.compile. Letters as in triton_kernels.py."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MOST_ROWS = 64  # of x; more are multiplied with a dequantised copy by cuBLAS
_TRITON, _INTERPRETED = find_spec("triton") is not None, os.environ.get("TRITON_INTERPRET") == "1"
_MANY = 8192  # outputs, which fill a GPU by themselves
_ONE = 0x3F800000  # 1.0 in float32
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def why_not(x_MK: Tensor) -> str | None:
    if not _TRITON:
        return "triton is not installed"
    if not x_MK.is_cuda and not _INTERPRETED:
        return f"Triton kernels need a GPU; x is on {x_MK.device.type}"
    if x_MK.dtype not in _DTYPES:
        return f"the kernels compute in float32, bfloat16 and float16; x is {x_MK.dtype}"
    return None


def linear(x_MK: Tensor, W: Tensor, scale: Tensor, bias_N: Tensor | None, group: int) -> Tensor:
    """x Wᵀ + b, with q_NK and s_N of int8 (group = 0), or what rounding.pack gives for int4."""
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
    from firth.layers.activation import is_gated
    from firth.layers.kernels.triton.quantised_code import OneRowConstants, one_row

    K, gated = x_1K.shape[1], is_gated(activation)
    n = len(W) // (2 if gated else 1)
    x_1K, y_1N, early = x_1K.contiguous(), x_1K.new_empty(1, n), _starts_early(x_1K)
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
    _run(one_row, -(-n // (rows // 2 if gated else rows)), args, kind, early, num_warps=warps)
    return y_1N


def _several_rows(x_MK: Tensor, W: Tensor, scale: Tensor, bias_N: Tensor | None, group: int) -> Tensor:
    from firth.layers.kernels.triton.quantised_code import SeveralRowsConstants, several_rows

    x_MK, (M, K), N = x_MK.contiguous(), x_MK.shape, len(W)
    y_MN, early = x_MK.new_empty(M, N), _starts_early(x_MK)
    outputs, slices, block, stages = tile_of_rows(M, N, K, group, x_MK.dtype)
    rows = max(16, _power_of_two(M))
    kind = SeveralRowsConstants(K, group, _padded(K, group), rows, outputs, slices, block, bias_N is not None, early)
    args = (x_MK, W, _words(scale), y_MN if bias_N is None else bias_N, y_MN, M, N)
    _run(several_rows, -(-N // outputs), args, kind, early, num_warps=max(4, slices), num_stages=stages)
    return y_MN


def dequantised(W: Tensor, scale: Tensor, K: int, group: int, dtype: torch.dtype) -> Tensor:
    """W_NK in a type of floating point."""
    from firth.layers.kernels.triton.quantised_code import DequantiseConstants, dequantise

    W_NK = torch.empty(len(W), K, dtype=dtype, device=W.device)
    kind = DequantiseConstants(K, group, _padded(K, group), min(1024, _power_of_two(W.shape[1])))
    _run(dequantise, len(W), (W, _words(scale), W_NK), kind, early=False, num_warps=4)
    return W_NK


def _run(kernel: Any, programs: int, args: tuple[Any, ...], kind: Any, early: bool, **options: int) -> None:
    from firth.layers.kernels.attention.launch import launch

    with torch.cuda.device_of(args[0]):  # type: ignore[no-untyped-call]
        launch(kernel, programs, args[0].get_device(), args, kind, **options, **({"launch_pdl": True} if early else {}))


def _starts_early(x: Tensor) -> bool:
    from firth.layers.kernels.triton.few_queries_code import starts_early

    return starts_early(x)


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
