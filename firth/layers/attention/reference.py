"""The definition, in the order in which one would say it. Any dtype, float64 included; holds all Q×K weights."""

from __future__ import annotations

import torch
from torch import Tensor

from firth.layers.attention.call import Call


def why_not(call: Call) -> str | None:
    return None


def run(call: Call) -> Tensor:
    return (_by_group(weights(call), call) @ call.v_BGKE.unsqueeze(2)).flatten(1, 2)


def weights(call: Call) -> Tensor:
    """softmax over the allowed keys of scale · q·k; all zero where no key is allowed."""
    score_BHQK = (_by_group(call.q_BHQD, call) @ call.k_BGKD.unsqueeze(2).mT).flatten(1, 2) * call.scale
    allowed_BHQK = call.allowed_BHQK()
    if not score_BHQK.shape[3]:
        return score_BHQK  # no keys at all: no weights, and amax would refuse
    score_BHQK = torch.where(allowed_BHQK, score_BHQK, -torch.inf)
    # Subtract the row maximum (exp(89) overflows float32); an empty row has none, and −inf − −inf would be NaN.
    top_BHQ1 = score_BHQK.detach().amax(-1, keepdim=True)
    power_BHQK = torch.exp(score_BHQK - top_BHQ1.masked_fill(top_BHQ1 == -torch.inf, 0.0))
    total_BHQ1 = power_BHQK.sum(-1, keepdim=True)
    return power_BHQK / total_BHQ1.masked_fill(total_BHQ1 == 0, 1.0)


def _by_group(x_BHQn: Tensor, call: Call) -> Tensor:
    """B,H,Q,n → B,G,R,Q,n: query head h reads key/value head h // R."""
    B, H, Q, n = x_BHQn.shape
    return x_BHQn.reshape(B, H // call.heads_per_group, call.heads_per_group, Q, n)
