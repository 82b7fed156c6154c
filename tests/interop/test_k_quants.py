"""Q4_K and Q6_K as firth writes them, read by the package gguf."""

from __future__ import annotations

import numpy as np
import pytest
from gguf_files import gguf

from firth.errors import ConfigError
from firth.interop.formats.gguf_quantised import quantised, tensor_types
from firth.interop.formats.k_quants import quantised_q4_k, quantised_q6_k

WRITERS = {"Q4_K": quantised_q4_k, "Q6_K": quantised_q6_k}


def read_back(x_RC: np.ndarray, kind: str) -> np.ndarray:
    rows = WRITERS[kind](x_RC) if kind in WRITERS else gguf.quants.quantize(x_RC, gguf.GGMLQuantizationType[kind])
    return gguf.quants.dequantize(rows, gguf.GGMLQuantizationType[kind])


def error(x_RC: np.ndarray, kind: str) -> float:
    """The square root of the mean square, relative to that of the weights."""
    return float(np.sqrt(np.square(read_back(x_RC, kind) - x_RC).mean() / np.square(x_RC).mean()))


def weights(seed: int = 0, rows: int = 40, columns: int = 512) -> np.ndarray:
    """Normal, with rows of very different sizes, some of them heavy-tailed or shifted."""
    rng = np.random.default_rng(seed)
    x_RC = rng.standard_normal((rows, columns)) * 10.0 ** rng.uniform(-4, 1, (rows, 1))
    x_RC[::5] = rng.standard_t(3, (len(x_RC[::5]), columns))
    x_RC[::7] += 1.5
    return x_RC.astype(np.float32)


def test_a_weight_is_missed_by_no_more_than_its_format_allows() -> None:
    """Rounding to 2ⁿ levels over the width of a group, and its scales to 6 or 8 bits."""
    x_RC = weights()
    for kind, group, levels, scales in (("Q6_K", 16, 31, 128), ("Q4_K", 32, 15, 63)):
        x_NGE, missed_NGE = (y.reshape(-1, 256 // group, group) for y in (x_RC, abs(read_back(x_RC, kind) - x_RC)))
        width_NG = abs(x_NGE).max(-1) if kind == "Q6_K" else np.maximum(x_NGE.max(-1), 0) - np.minimum(x_NGE.min(-1), 0)
        widest_N1 = abs(x_NGE).max((1, 2))[:, None]  # the unit of all scales of a block
        assert (missed_NGE.max(-1) <= 1.5 * width_NG / levels + 2 * widest_N1 / scales).all(), kind


def test_more_bits_miss_less_and_k_quants_less_than_plain_ones_of_their_size() -> None:
    x_RC = np.random.default_rng(1).standard_normal((64, 1024)).astype(np.float32)
    errors = {kind: error(x_RC, kind) for kind in ("Q4_0", "Q4_K", "Q5_0", "Q6_K", "Q8_0")}
    assert errors["Q8_0"] < errors["Q6_K"] < errors["Q5_0"] < errors["Q4_K"] < errors["Q4_0"]
    assert errors["Q4_K"] < 0.075
    assert errors["Q6_K"] < 0.019


@pytest.mark.parametrize("kind", list(WRITERS))
def test_blocks_at_the_edge_are_read_back(kind: str) -> None:
    zero = np.zeros((1, 256), np.float32)
    assert (read_back(zero, kind) == 0).all()
    for number in (1.0, -1.0, 0.02, 6e4):
        assert read_back(zero + np.float32(number), kind) == pytest.approx(number, rel=0.02)
    one = zero.copy()
    one[0, 77] = -5.0
    assert read_back(one, kind)[0, 77] == pytest.approx(-5, rel=0.02)
    assert np.count_nonzero(abs(read_back(one, kind)) > 0.02) == 1
    levels = np.resize(np.arange(-8, 8, dtype=np.float32), (2, 256))  # exactly representable: 16 levels
    assert read_back(levels, kind) == pytest.approx(levels, abs=0.1)


def test_weights_that_cannot_be_quantised_are_named() -> None:
    import torch

    for number in (float("nan"), float("inf"), 1e5):
        with pytest.raises(ConfigError, match=r"blk\.0\.attn_q\.weight has a weight that is not finite, or larger than 65,504"):
            quantised(gguf, "blk.0.attn_q.weight", torch.full((2, 256), number), "Q4_K")


def shapes(depth: int, width: int, hidden: int, *, tied: bool) -> dict[str, tuple[int, ...]]:
    layer = {"attn_norm": (width,), "attn_q": (width, width), "attn_v": (width // 4, width), "ffn_down": (width, hidden)}
    by_name: dict[str, tuple[int, ...]] = {"token_embd.weight": (100, width)}
    by_name |= {f"blk.{n}.{name}.weight": shape for n in range(depth) for name, shape in layer.items()}
    return by_name if tied else by_name | {"output.weight": (100, width)}


def test_tensors_get_the_types_that_llama_quantize_gives_them() -> None:
    """The types that `llama-quantize model.gguf Q4_K_M` prints for a LLaMA model of 16 layers, and rows not divisible by 256."""
    types = tensor_types(shapes(16, 512, 1024, tied=False), "q4_k_m", 16)
    assert (types["output.weight"], types["token_embd.weight"], types["blk.3.attn_norm.weight"]) == ("Q6_K", "Q4_K", "F32")
    assert {types[f"blk.{n}.attn_q.weight"] for n in range(16)} == {"Q4_K"}
    for name in ("attn_v", "ffn_down"):
        more = [n for n in range(16) if types[f"blk.{n}.{name}.weight"] == "Q6_K"]
        assert more == [0, 1, 4, 7, 10, 13, 14, 15]
    small = tensor_types(shapes(16, 576, 1536, tied=True), "q4_k_m", 16)  # the width of SmolLM2 135M
    assert (small["token_embd.weight"], small["blk.2.attn_q.weight"]) == ("Q8_0", "Q5_0")
    assert (small["blk.2.ffn_down.weight"], small["blk.4.ffn_down.weight"]) == ("Q4_K", "Q6_K")
    plain = tensor_types(shapes(2, 64, 72, tied=True), "q4_0", 2)
    assert (plain["token_embd.weight"], plain["blk.0.attn_q.weight"], plain["blk.0.ffn_down.weight"]) == ("Q8_0", "Q4_0", "F16")
    assert tensor_types(shapes(2, 512, 512, tied=True), "q4_0", 2)["token_embd.weight"] == "Q6_K"
    eight = tensor_types(shapes(2, 512, 512, tied=False), "q8_0", 2)
    assert {kind for name, kind in eight.items() if "norm" not in name} == {"Q8_0"}
    with pytest.raises(ConfigError, match=r"q8_0 has blocks of 32 weights, and rows of 24 \(model.width\)"):
        tensor_types(shapes(2, 24, 40, tied=True), "q8_0", 2)
