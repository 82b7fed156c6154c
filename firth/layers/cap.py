"""Bounds of scores and logits."""

from __future__ import annotations

import torch
from torch import Tensor


def capped(x: Tensor, cap: float | None) -> Tensor:
    """c tanh(x / c): about x where x is small, and never beyond ±c (Gemma Team 2024, §2). Without a cap, x itself."""
    return x if cap is None else cap * torch.tanh(x / cap)
