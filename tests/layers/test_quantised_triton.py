"""The Triton kernels for quantised weights against the dequantised matrix, on a GPU or in Triton's interpreter."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from interpreter import INTERPRETED
from torch import Tensor, nn

triton = pytest.importorskip("triton", reason="the kernels are written in Triton")

from firth.layers.activation import gelu_tanh, swiglu  # noqa: E402
from firth.layers.norm import norm  # noqa: E402
from firth.layers.quantised import Int4Linear, Int8Linear, QuantisedLinear, gpu  # noqa: E402
from firth.models import TransformerConfig, language_model  # noqa: E402
from firth.models.initialise import initialise  # noqa: E402
from firth.models.quantisation import quantise  # noqa: E402

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


@torch.inference_mode()
@pytest.mark.parametrize("activation", [None, "relu", "gelu_tanh", "swiglu"])
@pytest.mark.parametrize("normed", [None, "layer", "rms"])
@pytest.mark.parametrize("kind", ["int8", "int4, 32"])
def test_what_stands_around_a_product_of_one_row(kind: str, normed: Any, activation: Any) -> None:
    n, d = 38, 200
    one = layer(kind, n, d, normed != "rms", torch.float32)
    x = 0.1 + torch.randn(1, 1, d, generator=torch.Generator().manual_seed(0)).to(DEVICE) / 20
    residual = torch.randn(1, 1, n // (2 if activation == "swiglu" else 1)).to(DEVICE)
    of_x: nn.Module = nn.Identity() if normed is None else norm(normed, d, True, 1e-5).to(DEVICE)
    for parameter in of_x.parameters():
        parameter.copy_((1 + torch.randn(d)) / 20)
    got = one.one_row(x, norm=None if normed is None else of_x, activation=activation, residual=residual)
    bias = None if one.bias is None else one.bias.double()
    up = F.linear(of_x.double()(x.double()), one.dequantised(torch.float64), bias)
    phi: Any = {None: lambda h: h, "relu": F.relu, "gelu_tanh": gelu_tanh, "swiglu": swiglu}[activation]
    torch.testing.assert_close(got.double(), residual.double() + phi(up), rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(INTERPRETED, reason="needs a GPU")
@torch.inference_mode()
@pytest.mark.parametrize("kind", ["int8", "int4"])
@pytest.mark.parametrize("settings", [
    {"position": "learned"}, {"position": "rotary", "kv_heads": 2, "norm": "rms", "activation": "swiglu", "bias": False},
], ids=str)  # fmt: skip
def test_steps_of_one_text_equal_those_of_growing_states(settings: dict[str, Any], kind: Any) -> None:
    config = TransformerConfig(kind="transformer", width=64, depth=3, heads=4, context=64, **settings)
    model = language_model(config, 301)
    initialise(model, torch.Generator().manual_seed(0))
    model = model.cuda().eval()
    quantise(model, kind)
    model.reach(64)  # type: ignore[operator]
    text = torch.randint(301, (1, 20), generator=torch.Generator().manual_seed(1)).cuda()
    _, state = model.step(text[:, :12], model.start(1))
    fixed = state.fixed(40)
    for n in range(12, 20):
        got, fixed = model.step(text[:, n : n + 1], fixed)
        expected = model.step(text[:, : n + 1], model.start(1))[0][:, -1:]
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # torch's own, while it imports its compiler
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


@pytest.mark.parametrize("kind", ["int8", "int4, 32", "int4, 64"])
@pytest.mark.parametrize(("n", "d"), [(16, 256), (9, 70), (5, 31), (3, 2100)])
def test_more_rows_are_multiplied_with_the_dequantised_matrix(kind: str, n: int, d: int) -> None:
    one = layer(kind, n, d, True, torch.float32)
    assert torch.equal(gpu.dequantised(*one.on_gpu(), d, one.group, torch.float32), one.dequantised(torch.float32))
    x = torch.randn(gpu.MOST_ROWS + 1, d).to(DEVICE)
    torch.testing.assert_close(one(x), one.reference(x))
