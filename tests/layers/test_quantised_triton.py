"""The Triton kernels for quantised weights against the dequantised matrix, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch
from interpreter import INTERPRETED
from torch import Tensor

triton = pytest.importorskip("triton", reason="the kernels are written in Triton")

from firth.layers.quantised import Int4Linear, Int8Linear, QuantisedLinear, gpu  # noqa: E402

DEVICE = "cpu" if INTERPRETED else "cuda"
pytestmark = [
    pytest.mark.long,
    pytest.mark.usefixtures("triton_interpreter"),
    pytest.mark.skipif(not INTERPRETED and not torch.cuda.is_available(), reason="needs a GPU, or TRITON_INTERPRET=1"),
]
DTYPES = [torch.float32] if INTERPRETED else [torch.float32, torch.bfloat16, torch.float16]


def layer(kind: str, n: int, d: int, bias: bool, dtype: torch.dtype) -> QuantisedLinear:
    generator = torch.Generator().manual_seed(n + d)
    W_nd = torch.randn(n, d, generator=generator).to(DEVICE, dtype)
    b_n = torch.randn(n, generator=generator).to(DEVICE, dtype) if bias else None
    return Int8Linear(W_nd, b_n) if kind == "int8" else Int4Linear(W_nd, b_n, int(kind.removeprefix("int4, ")))


def error(y: Tensor, one: QuantisedLinear, x: Tensor) -> float:
    exact = x.double() @ one.dequantised(torch.float64).T + (0 if one.bias is None else one.bias.double())
    return float((y - exact).abs().max() / exact.abs().max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["int8", "int4, 32", "int4, 64", "int4, 128"])
@pytest.mark.parametrize(("n", "d", "bias"), [(48, 256, True), (50, 72, False), (20, 31, True)])
def test_the_kernels_multiply_with_the_dequantised_matrix(kind: str, n: int, d: int, bias: bool, dtype: torch.dtype) -> None:
    one = layer(kind, n, d, bias, dtype)
    for rows in (1, 2, 16, 33):
        x = torch.randn(rows, d, generator=torch.Generator().manual_seed(rows)).to(DEVICE, dtype)
        assert gpu.why_not(x) is None
        assert error(one(x), one, x) <= 2 * error(one.reference(x), one, x) + 4 * torch.finfo(dtype).eps


@pytest.mark.skipif(INTERPRETED, reason="needs a GPU")
@pytest.mark.parametrize("kind", ["int8", "int4, 32"])
def test_they_run_in_a_graph_and_compiled(kind: str) -> None:
    one = layer(kind, 256, 512, True, torch.bfloat16)
    x = torch.randn(4, 512, device=DEVICE, dtype=torch.bfloat16)
    expected = one(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = one(x)
    y.zero_()
    graph.replay()
    assert torch.equal(y, expected)
    with torch.inference_mode():
        assert torch.equal(torch.compile(one, fullgraph=True)(x), expected)


def test_more_rows_than_the_kernels_take_are_multiplied_with_the_dequantised_matrix() -> None:
    one = layer("int8", 32, 64, True, torch.float32)
    x = torch.randn(gpu.MOST_ROWS + 1, 64).to(DEVICE)
    assert gpu.why_not(x) == "the kernels multiply 1 to 64 rows; x has 65"
    assert torch.allclose(one(x), one.reference(x), atol=0.01)
