"""Positions that are added to the embedding. Letters: T time, d model width.

All angles are computed in float64 and rounded once: at position 10⁵ a float32 angle is off by 0.004 already.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from firth.errors import ConfigError


def angles(position_T: Tensor, width: int, base: float) -> Tensor:
    """t·ω_i with ω_i = base^(−2i/width), i = 0 … width/2 − 1, in float64."""
    omega = base ** (-torch.arange(0, width, 2, dtype=torch.float64, device=position_T.device) / width)
    return position_T.to(torch.float64).unsqueeze(-1) * omega


def sinusoid(position_T: Tensor, width: int, base: float = 10_000.0) -> Tensor:
    """p_t = (sin ω_0 t, cos ω_0 t, sin ω_1 t, …), interleaved (Vaswani et al. 2017, §3.5); float64."""
    angle = angles(position_T, width, base)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2)


class Learned(nn.Module):
    """One trained vector per position; there are no more positions than were trained."""

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.table_Td = nn.Parameter(torch.empty(context, width))

    def forward(self, start: int, length: int) -> Tensor:
        if start + length > len(self.table_Td):
            raise ConfigError(
                f"position {start + length} is asked for; model.context is {len(self.table_Td)} and learned positions end there; "
                "use fewer tokens, a larger model.context, or model.position=rotary"
            )
        return self.table_Td[start : start + length]


class Sinusoidal(nn.Module):
    """The sinusoid as a table that grows when it has to; nothing to train, nothing to save."""

    table_Td: Tensor

    def __init__(self, context: int, width: int, base: float) -> None:
        super().__init__()
        if width % 2:
            raise ConfigError(f"sinusoidal positions pair a sine with a cosine, so model.width must be even; given {width}")
        self.width, self.base = width, base
        self.register_buffer("table_Td", sinusoid(torch.arange(context), width, base).float(), persistent=False)

    def forward(self, start: int, length: int) -> Tensor:
        if start + length > len(self.table_Td):
            with torch.inference_mode(False):  # a table that grew while generating must still serve training
                position_T = torch.arange(2 * (start + length), device=self.table_Td.device)
                self.table_Td = sinusoid(position_T, self.width, self.base).float().to(self.table_Td.dtype)
        return self.table_Td[start : start + length]
