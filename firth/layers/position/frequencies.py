"""The angles t·ω_i of sinusoidal and rotary positions. They are computed in float64 and rounded once: at position 10⁵ a float32
angle is already off by 0.004."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from firth.errors import ConfigError


def frequencies(width: int, base: float, device: torch.device | None = None, endpoint: bool = False) -> Tensor:
    """ω_i = base^(−2i/width), i = 0 … width/2 − 1, in float64; with `endpoint`, the last is 1/base: base^(−2i/(width − 2))."""
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64, device=device) / (width - 2 if endpoint else width))


def angles(position_T: Tensor, width: int, base: float, endpoint: bool = False) -> Tensor:
    """t·ω_i in float64."""
    return position_T.to(torch.float64).unsqueeze(-1) * frequencies(width, base, position_T.device, endpoint)


def check_base(base: float) -> None:
    if not (math.isfinite(base) and base > 0):
        raise ConfigError(f"model.position.base is {base}; expected a finite number above 0")
