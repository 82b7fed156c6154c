"""The Triton kernels as operations, in eager mode, in a CUDA graph and under torch.compile. Letters as in triton_kernels.py."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

MOST_ROWS = 64  # of x; more are multiplied with a dequantised copy
_TRITON, _INTERPRETED = find_spec("triton") is not None, os.environ.get("TRITON_INTERPRET") == "1"
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def why_not(x_MK: Tensor) -> str | None:
    if not _TRITON:
        return "triton is not installed"
    if not x_MK.is_cuda and not _INTERPRETED:
        return f"Triton kernels need a GPU; x is on {x_MK.device.type}"
    if x_MK.dtype not in _DTYPES:
        return f"the kernels compute in float32, bfloat16 and float16; x is {x_MK.dtype}"
    if not 0 < len(x_MK) <= MOST_ROWS:
        return f"the kernels multiply 1 to {MOST_ROWS} rows; x has {len(x_MK)}"
    return None


def int8_linear(x_MK: Tensor, q_NK: Tensor, scale_N: Tensor, bias_N: Tensor | None) -> Tensor:
    """x (s q)ᵀ + b."""
    return _int8_operator(x_MK, q_NK, scale_N, bias_N) if torch.compiler.is_compiling() else _int8(x_MK, q_NK, scale_N, bias_N)


def int4_linear(x_MK: Tensor, packed: Tensor, scale_NC: Tensor, m_NC: Tensor, bias_N: Tensor | None, group: int) -> Tensor:
    """x (s (q − 8) + m)ᵀ + b."""
    run: Any = _int4_operator if torch.compiler.is_compiling() else _int4
    y_MN: Tensor = run(x_MK, packed, scale_NC, m_NC, bias_N, group)
    return y_MN


def _int8(x_MK: Tensor, q_NK: Tensor, scale_N: Tensor, bias_N: Tensor | None) -> Tensor:
    from firth.layers.quantised.triton_kernels import int8_kernel

    return _run(int8_kernel, x_MK, (q_NK, scale_N), bias_N, 0)


def _int4(x_MK: Tensor, packed: Tensor, scale_NC: Tensor, m_NC: Tensor, bias_N: Tensor | None, group: int) -> Tensor:
    from firth.layers.quantised.triton_kernels import int4_kernel

    return _run(int4_kernel, x_MK, (packed, scale_NC, m_NC), bias_N, group)


def _run(kernel: Any, x_MK: Tensor, weights: tuple[Tensor, ...], bias_N: Tensor | None, group: int) -> Tensor:
    from firth.layers.attention.fused.launch import launch
    from firth.layers.quantised.triton_kernels import Kind

    x_MK, (M, K), N = x_MK.contiguous(), x_MK.shape, len(weights[0])
    y_MN = x_MK.new_empty(M, N)
    block_m, block_n, block_k, warps = blocks(M, N, K, group, x_MK.dtype)
    kind = Kind(K, block_m, block_n, block_k, group, bias_N is not None)
    args = (x_MK, *weights, y_MN if bias_N is None else bias_N, y_MN, M, N)
    with torch.cuda.device_of(x_MK):  # type: ignore[no-untyped-call]
        launch(kernel, -(-N // block_n), x_MK.get_device(), args, kind, num_warps=warps, num_stages=3)
    return y_MN


def blocks(M: int, N: int, K: int, group: int, dtype: torch.dtype) -> tuple[int, int, int, int]:
    """BLOCK_M, BLOCK_N, BLOCK_K and warps."""
    columns = _power_of_two((K + 1) // 2 if group else K)
    if M == 1:
        return 1, 4 if N < 8192 else 8, min(512, columns), 4
    return max(16, _power_of_two(M)), 16 if N < 8192 else 32, max(16, min(128 if dtype != torch.float32 else 64, columns)), 4


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


_int8_operator: Any = torch.library.custom_op("firth::int8_linear", _int8, mutates_args=())
_int4_operator: Any = torch.library.custom_op("firth::int4_linear", _int4, mutates_args=())


_int8_operator.register_fake(lambda x_MK, q_NK, *others: x_MK.new_empty(x_MK.shape[0], q_NK.shape[0]))
_int4_operator.register_fake(lambda x_MK, packed, *others: x_MK.new_empty(x_MK.shape[0], packed.shape[0]))
