"""Drawing a token with the usual filters, in operations that take their settings as plain numbers: for CUDA graphs, in which no
settings can be copied to the GPU. Chain (sampling/choice.py) is the definition, and a test compares the two.

Letters: B batch, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.decoding.sampling.draw import at_quantile
from firth.decoding.sampling.min_p import MinP
from firth.decoding.sampling.temperature import Temperature
from firth.decoding.sampling.top_k import TopK
from firth.decoding.sampling.top_p import TopP

KNOWN: tuple[Any, ...] = (Temperature, TopK, TopP, MinP)


def can_record(config: DecodingConfig) -> bool:
    """Whether it draws, and with no other filters."""
    return config.draws and all(one in KNOWN for one in config.acting())


def recorded_pick(logits_BV: Tensor, config: DecodingConfig, u_B: Tensor) -> Tensor:
    """token_B, as choice.pick."""
    x_BV = _nucleus(logits_BV.float() / config.temperature, config.top_k, config.top_p)
    if config.min_p:
        p_BV = torch.softmax(x_BV, -1)
        x_BV = x_BV.masked_fill(p_BV < config.min_p * p_BV.amax(-1, keepdim=True), -torch.inf)
    return at_quantile(torch.softmax(x_BV, -1), u_B)


def _nucleus(x_BV: Tensor, top_k: int, top_p: float) -> Tensor:
    if (top_k == 0 or top_k >= x_BV.shape[-1]) and top_p == 1:
        return x_BV
    sorted_BV, order_BV = torch.sort(x_BV, dim=-1, descending=True, stable=True)
    out_BV = torch.zeros_like(sorted_BV, dtype=torch.bool)
    if top_k:
        out_BV[..., top_k:] = True
    if top_p < 1:
        p_BV = torch.softmax(sorted_BV.masked_fill(out_BV, -torch.inf), -1)
        out_BV |= p_BV.cumsum(-1) - p_BV >= top_p
    return x_BV.masked_fill(torch.zeros_like(out_BV).scatter(-1, order_BV, out_BV), -torch.inf)
