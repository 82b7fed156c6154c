"""Drawing from a distribution. Letters: B batch, V vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def at_quantile(p_BV: Tensor, u_B: Tensor) -> Tensor:
    """token_B: the first whose cumulated probability exceeds u."""
    if p_BV.device.type == "mps":  # has no float64
        return at_quantile(p_BV.cpu(), u_B.cpu()).to(p_BV.device)
    below_BV = p_BV.double().cumsum(-1)
    token_B = torch.searchsorted(below_BV, u_B.unsqueeze(1) * below_BV[:, -1:], right=True).squeeze(1)
    return token_B.clamp(max=p_BV.shape[-1] - 1)


def random_numbers(seed: int, number: int) -> np.random.Generator:
    """What decides the tokens of a text: its seed, and its number among those of the same seed. Drawn on the CPU, so that a seed
    gives the same text on every device and in every batch."""
    # Not torch's generator: it uses only 32 bits of its seed, too few for two numbers.
    return np.random.default_rng((seed, number))


def forced(logits_BV: Tensor, token: int) -> Tensor:
    """Logits that leave one token."""
    only_BV = torch.full_like(logits_BV, -torch.inf)
    only_BV[:, token] = 0
    return only_BV


def without(logits_BV: Tensor, banned: Sequence[int]) -> Tensor:
    """−∞ for the tokens `banned`."""
    if not banned:
        return logits_BV
    return logits_BV.index_fill(-1, torch.tensor(banned, device=logits_BV.device), -torch.inf)
