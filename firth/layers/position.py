"""Where a token stands. Letters: B batch, T time, d model width, H heads, D head width.

All angles are computed in float64 and rounded once: at position 10⁵ a float32 angle is off by 0.004 already.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from firth.errors import ConfigError

PositionKind = Literal["none", "learned", "sinusoidal", "rotary"]


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


class Turn(NamedTuple):
    """What turns the positions of a window: cos θ for both halves of a head, and sin θ, negative for the first half."""

    cos_TD: Tensor
    sin_TD: Tensor

    def like(self, x: Tensor) -> Turn:
        return self if self.cos_TD.dtype == x.dtype else Turn(self.cos_TD.to(x.dtype), self.sin_TD.to(x.dtype))

    def back(self) -> Turn:
        return Turn(self.cos_TD, -self.sin_TD)


class Rotary(nn.Module):
    """Turns pair i of q and k by t·ω_i, so that q·k depends on the distance alone (Su et al. 2021).

    Pairs are halves — (x_i, x_{i+D/2}) — and the angle is +θ."""

    turn_2TD: Tensor

    def __init__(self, context: int, head_width: int, base: float) -> None:
        super().__init__()
        if head_width % 2:
            raise ConfigError(f"rotary positions turn pairs, so width / heads must be even; given {head_width}")
        self.head_width, self.base = head_width, base
        self.register_buffer("turn_2TD", self._turn(torch.arange(context)).float(), persistent=False)

    def _turn(self, position_T: Tensor) -> Tensor:
        """(cos θ, cos θ) and (−sin θ, sin θ), each as wide as a head, so that a turn is two products and a sum."""
        angle = angles(position_T, self.head_width, self.base)
        cos, sin = angle.cos(), angle.sin()
        return torch.stack((torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)))

    def at(self, start: int, length: int) -> Turn:
        """The turns of positions start … start + length − 1, to be applied in every layer."""
        if start + length > self.turn_2TD.shape[1]:
            with torch.inference_mode(False):  # a table that grew while generating must still serve training
                position_T = torch.arange(2 * (start + length), device=self.turn_2TD.device)
                self.turn_2TD = self._turn(position_T).float().to(self.turn_2TD.dtype)
        return Turn(*self.turn_2TD[:, start : start + length].unbind(0))


def rotate(x_BHTD: Tensor, turn: Turn, out: Tensor | None = None) -> Tensor:
    """(x_1 cos − x_2 sin, x_2 cos + x_1 sin) for the halves x_1, x_2 of each head; into `out` where it is given."""
    cos_TD, sin_TD = turn.like(x_BHTD)
    swapped_BHTD = x_BHTD.roll(x_BHTD.shape[-1] // 2, -1)
    return torch.addcmul(x_BHTD * cos_TD, swapped_BHTD, sin_TD, out=out)
