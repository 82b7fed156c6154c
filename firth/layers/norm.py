"""Normalisation over the last axis."""

from __future__ import annotations

from typing import Literal

from torch import nn

NormKind = Literal["layer", "rms"]


def norm(kind: NormKind, width: int, bias: bool) -> nn.Module:
    """LayerNorm  (x − E[x]) / √(Var[x] + ε) · γ + β  with the biased variance and ε inside the root, or
    RMSNorm   x / √(E[x²] + ε) · γ  (Zhang & Sennrich 2019)."""
    match kind:
        case "layer":
            return nn.LayerNorm(width, eps=1e-5, bias=bias)
        case "rms":
            return nn.RMSNorm(width, eps=1e-5)
