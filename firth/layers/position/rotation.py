"""Positions that turn q and k. Letters: B batch, H heads, T time, D head width."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.position.absolute import angles


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
        self.register_buffer("turn_2TD", turns(angles(torch.arange(context), head_width, base)).float(), persistent=False)

    def at(self, start: int, length: int) -> Turn:
        """The turns of positions start … start + length − 1, to be applied in every layer."""
        if start + length > self.turn_2TD.shape[1]:
            with torch.inference_mode(False):  # a table that grew while generating must still serve training
                position_T = torch.arange(2 * (start + length), device=self.turn_2TD.device)
                turn_2TD = turns(angles(position_T, self.head_width, self.base))
                self.turn_2TD = turn_2TD.float().to(self.turn_2TD.dtype)
        return Turn(*self.turn_2TD[:, start : start + length].unbind(0))


def rotate(x_BHTD: Tensor, turn: Turn, out: Tensor | None = None) -> Tensor:
    """(x_1 cos − x_2 sin, x_2 cos + x_1 sin) for the halves x_1, x_2 of each head; into `out` where it is given."""
    cos_TD, sin_TD = turn.like(x_BHTD)
    swapped_BHTD = x_BHTD.roll(x_BHTD.shape[-1] // 2, -1)
    return torch.addcmul(x_BHTD * cos_TD, swapped_BHTD, sin_TD, out=out)


class Rotation(NamedTuple):
    """What attend() is given as `position` to turn q and k itself. A model with a cache turns them before they are stored."""

    base: float

    def turned(self, x_BHTD: Tensor, position_BT: Tensor) -> Tensor:
        """x turned to where it stands; the positions differ by row or are the same for all."""
        if x_BHTD.shape[-1] % 2:
            raise ConfigError(f"rotary positions turn pairs, so q and k must have an even width; given {x_BHTD.shape[-1]}")
        cos_BTD, sin_BTD = turns(angles(position_BT, x_BHTD.shape[-1], self.base)).unbind(0)
        return rotate(x_BHTD, Turn(cos_BTD.unsqueeze(1), sin_BTD.unsqueeze(1)))


def rotary(base: float = 10_000.0) -> Rotation:
    return Rotation(base)


def turns(angle: Tensor) -> Tensor:
    """(cos θ, cos θ) and (−sin θ, sin θ), each as wide as a head, so that a turn is two products and a sum."""
    cos, sin = angle.cos(), angle.sin()
    return torch.stack((torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)))
