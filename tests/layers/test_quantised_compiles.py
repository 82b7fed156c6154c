"""The Triton kernels for quantised weights compile for a GPU, which the interpreter does not show; no GPU is needed for that."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from interpreter import INTERPRETED

triton = pytest.importorskip("triton", reason="the kernels are written in Triton")

from firth.layers.kernels.triton.lazy import import_triton  # noqa: E402
from firth.layers.quantised import gpu  # noqa: E402

import_triton(gpu.__name__)

pytestmark = [pytest.mark.long, pytest.mark.skipif(INTERPRETED, reason="Triton's interpreter does not compile")]
TYPES = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.float16: "*fp16"}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows", [2, 64])
@pytest.mark.parametrize("group", [0, 32])
def test_products_of_several_rows_compile(group: int, rows: int, dtype: torch.dtype) -> None:
    outputs, slices, block, stages = gpu.tile_of_rows(rows, 2304, 768, group, dtype)
    kind = gpu.SeveralRowsConstants(768, group, 768, max(16, rows), outputs, slices, block, True, True)
    compiled(gpu.several_rows_kernel, kind, dtype, group, num_warps=slices, num_stages=stages, launch_pdl=True)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("group", [0, 32])
@pytest.mark.parametrize(("norm", "activation", "gated"), [("layer", "gelu_tanh", False), ("rms", "swiglu", True)])
def test_products_of_one_row_compile(group: int, norm: str, activation: str, gated: bool, dtype: torch.dtype) -> None:
    rows, block, warps = gpu.tile_of_a_row(2304, 768, group)
    kind = gpu.OneRowConstants(768, group, 768, 1024, rows, block, norm, activation, gated, True, True, norm == "layer", True)
    compiled(gpu.one_row_kernel, kind, dtype, group, num_warps=warps, launch_pdl=True)


@pytest.mark.parametrize("group", [0, 32])
def test_dequantising_compiles(group: int) -> None:
    compiled(gpu.dequantise_kernel, gpu.DequantiseConstants(768, group, 768, 512), torch.bfloat16, group, num_warps=4)


def compiled(kernel: Any, kind: Any, dtype: torch.dtype, group: int, **options: Any) -> Any:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    of_int4 = {"W_at": "*i32" if "gain_at" in kernel.arg_names else "*u8", "scale_at": "*i32"}
    types = {"eps": "fp32", "KIND": "constexpr"} | (of_int4 if group else {"W_at": "*i8", "scale_at": "*fp32"})
    signature = {name: types.get(name, TYPES[dtype] if name.endswith("_at") else "i32") for name in kernel.arg_names}
    aligned = {(n,): [["tt.divisibility", 16]] for n, name in enumerate(kernel.arg_names) if name.endswith("_at")}
    constants = {(kernel.arg_names.index("KIND"),): kind}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    assert "cubin" in made.asm
    return made
