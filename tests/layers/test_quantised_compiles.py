"""The Triton kernels for quantised weights compile for a GPU, which the interpreter does not show; no GPU is needed for that."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from interpreter import INTERPRETED

triton = pytest.importorskip("triton", reason="the kernels are written in Triton")

from firth.layers.quantised import gpu  # noqa: E402

pytestmark = [pytest.mark.long, pytest.mark.skipif(INTERPRETED, reason="Triton's interpreter does not compile")]
TYPES = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.float16: "*fp16"}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows", [1, 16, 64])
@pytest.mark.parametrize("group", [0, 32])
def test_the_kernels_compile(group: int, rows: int, dtype: torch.dtype) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from firth.layers.quantised.triton_kernels import Kind, int4_kernel, int8_kernel

    kernel: Any = int4_kernel if group else int8_kernel
    block_m, block_n, block_k, warps = gpu.blocks(rows, 2304, 768, group, dtype)
    kind = Kind(768, block_m, block_n, block_k, group, True)
    x = TYPES[dtype]
    types = {"x": x, "bias": x, "y": x, "q": "*i8", "packed": "*u8", "scale": "*bf16" if group else "*fp32", "middle": "*bf16"}
    signature = {name: types.get(name, "i32") for name in kernel.arg_names} | {"KIND": "constexpr"}
    source = ASTSource(fn=kernel, signature=signature, constexprs={(kernel.arg_names.index("KIND"),): kind})
    options = {"num_warps": warps, "num_stages": 3}
    assert "cubin" in triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm
