"""Quantised weights for GGUF files: which type each tensor gets, and its bytes.

The types are those that llama.cpp's `llama-quantize` gives a LLaMA model without an importance matrix. Norms stay float32. The
output layer, or the embedding where the two are tied, gets at least 6 bits, because errors there cost most. For q4_k_m, so do
attn_v and ffn_down in about half of the layers. If rows are not divisible into blocks, a type with smaller blocks and more bits
takes over, and in the end float16.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firth.errors import ConfigError
from firth.interop.formats.k_quants import quantised_q4_k, quantised_q6_k

GGUFQuantisation = Literal["q8_0", "q4_0", "q4_k_m"]
_MOST = {"q8_0": "Q8_0", "q4_0": "Q4_0", "q4_k_m": "Q4_K"}
_BLOCK = {"Q8_0": 32, "Q4_0": 32, "Q5_0": 32, "Q4_K": 256, "Q6_K": 256, "F16": 1}
_SMALLER = {"Q4_K": "Q5_0", "Q6_K": "Q8_0"}  # for rows that are no multiple of 256
_OWN = {"Q4_K": quantised_q4_k, "Q6_K": quantised_q6_k}
_LARGEST = 65_504  # of a float16; every scale is smaller than the largest weight


def check_quantisation(given: str) -> None:
    if given not in get_args(GGUFQuantisation):
        raise ConfigError(f'unknown GGUF quantisation "{given}"; choose one of: {", ".join(get_args(GGUFQuantisation))}')


def file_type(quantisation: str) -> str:
    """The name of general.file_type."""
    return f"MOSTLY_{quantisation.upper()}"


def tensor_types(shapes: Mapping[str, tuple[int, ...]], quantisation: str, depth: int) -> dict[str, str]:
    """The type of each tensor of a LLaMA model with `depth` layers."""
    output = "output.weight" if "output.weight" in shapes else "token_embd.weight"
    types = {
        name: "F32" if len(shape) < 2 else _type(name, shape[-1], quantisation, depth, output) for name, shape in shapes.items()
    }
    if not any(kind not in ("F32", "F16") for kind in types.values()):
        width = shapes["token_embd.weight"][-1]
        raise ConfigError(f"{quantisation} has blocks of 32 weights, and rows of {width} (model.width) are not divisible by that")
    return types


def _type(name: str, columns: int, quantisation: str, depth: int, output: str) -> str:
    kind = _MOST[quantisation]
    if kind != "Q8_0" and (name == output or (quantisation == "q4_k_m" and _needs_more_bits(name, depth))):
        kind = "Q6_K"
    if columns % _BLOCK[kind]:
        kind = _SMALLER.get(kind, "F16")
    return "F16" if columns % _BLOCK[kind] else kind


def _needs_more_bits(name: str, depth: int) -> bool:
    """attn_v and ffn_down in the first and last eighth of the layers, and in every third between them."""
    if not name.endswith((".attn_v.weight", ".ffn_down.weight")):
        return False
    layer, eighth = int(name.split(".")[1]), depth // 8
    return layer < eighth or layer >= 7 * depth // 8 or (layer - eighth) % 3 == 2


def quantised(gguf: Any, name: str, weight_RC: Tensor, kind: str) -> NDArray[np.uint8]:
    """The bytes of a matrix, row by row."""
    x_RC = weight_RC.to(torch.float32).numpy()
    if not (abs(x_RC).max() <= _LARGEST):  # also if it is nan
        raise ConfigError(f"{name} has a weight that is not finite, or larger than {_LARGEST:,}; its scales are float16")
    own = _OWN.get(kind)
    rows: NDArray[np.uint8] = own(x_RC) if own else gguf.quants.quantize(x_RC, gguf.GGMLQuantizationType[kind])
    return rows
