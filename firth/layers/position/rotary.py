"""Rotary: pair i of q and k is turned by t·ω_i, so that q·k depends on the distance alone (Su et al. 2021).

    R_t q · R_s k = q · R_{s−t} k        ω_i = base^(−2i/D)

Pairs are halves, (x_i, x_{i+D/2}), and the angle is +θ. With `rotary_fraction`, only the first R/2 pairs turn, by
base^(−2i/R), and the others stay (Black et al. 2022, §2.1). Other frequencies let a model read longer texts than it was
trained on: rotary_scaling.py. Letters: B batch, H heads, T time, D head width, R numbers of a head that turn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Self

import torch
from torch import Tensor

from firth.config import renamed
from firth.errors import ConfigError
from firth.layers.position.frequencies import angles, check_base
from firth.layers.position.rotary_scaling import RotaryScaling, Scaling
from firth.layers.position.scheme import (
    Draw,
    PositionConfig,
    PositionExample,
    PositionScheme,
    PositionSettings,
    RotaryTurn,
    context_of,
    positions,
)

_MOST = 1 << 15  # positions in the table of a new model: some declare a million, which their texts seldom reach


@dataclass(frozen=True, kw_only=True)
class RotaryConfig(PositionConfig):
    """Rotations of queries and keys by their positions."""

    kind: Literal["rotary"] = "rotary"
    base: float = renamed(".position_base", ".base", default=10_000.0, always_written=True)  # base of the wavelengths
    # share of each head that is turned, pairs from the fastest on; if not set, all of it
    fraction: float | None = renamed(".rotary_fraction", default=None)
    # method that stretches the positions of a trained model to a longer context
    scaling: RotaryScaling = renamed(".rotary_scaling", default="none")
    context: int | None = renamed(".rotary_context", default=None)  # context, in tokens, of the training; required by `scaling`
    # factor by which `scaling` stretches the positions; if not set, that of the model's context to `context`
    factor: float | None = renamed(".rotary_factor", default=None)
    # base of the wavelengths in the layers that attend to a window; if not set, `base`
    base_local: float | None = renamed(".position_base_local", default=None)

    def __post_init__(self) -> None:
        check_base(self.base)
        for name in ("context", "factor"):
            if self.scaling == "none" and getattr(self, name) is not None:
                raise ConfigError(
                    f'model.position.{name} = {getattr(self, name)} needs model.position.scaling; choose "ntk" or "yarn"'
                )
        if self.factor is not None and not 1 <= self.factor < math.inf:
            raise ConfigError(f"model.position.factor is {self.factor}; expected at least 1")
        if self.scaling != "none" and self.context is None:
            raise ConfigError(
                f'model.position.scaling = "{self.scaling}" needs model.position.context, the context the model was trained with'
            )

    @property
    def steady(self) -> int | None:
        return self.context if self.scaling == "dynamic" else None

    def in_windows(self) -> RotaryConfig:
        """The positions of layers that attend to a window: they need no stretching, because no distance is longer than that."""
        if self.base_local is None:
            return self
        return replace(self, base=self.base_local, base_local=None, scaling="none", context=None, factor=None)


class Rotary(PositionScheme):
    """The rotations as a table that grows when needed; it is not saved."""

    kind = "rotary"
    about = "Queries and keys turn by an angle that grows with the position (Su et al. 2021)."
    latex = r"R_t q \cdot R_s k = q \cdot R_{s-t} k"
    Config = RotaryConfig
    oracle = "rotary"
    transfers = True
    turns = True
    turn_2TD: Tensor

    def __init__(
        self, context: int, head_width: int, base: float, scaling: Scaling | None = None, turned: int | None = None
    ) -> None:
        super().__init__()
        if head_width % 2:
            raise ConfigError(f"rotary positions rotate pairs, so width / heads must be even; given {head_width}")
        self.head_width, self.base, self.scaling, self.turned = head_width, base, scaling, turned
        self.register_buffer(
            "turn_2TD", self._turns(torch.arange(min(context, self.steady or _MOST, _MOST))).float(), persistent=False
        )

    @classmethod
    def check(cls, settings: PositionSettings) -> None:
        if settings.attention.score == "additive":
            raise ConfigError(
                'model.position = "rotary" makes q·k depend on the distance alone; tanh(q + k) of turned vectors does not. '
                'With model.attention.score = "additive" choose "t5", "alibi", "shaw", "sinusoidal", "learned" or "none"'
            )
        if settings.per_head % 2:
            raise ConfigError(
                'model.position = "rotary" rotates pairs, so model.width / model.attention.heads must be even; given '
                f"{settings.per_head}. Change either, or the position"
            )
        own, turned = settings.position, cls._turned(settings)
        cls._check_scaling(own, turned, settings.context)
        fraction = 1.0 if own.fraction is None else own.fraction
        if not 0 < fraction <= 1 or turned < 2 or turned % 2:
            raise ConfigError(
                f"model.position.fraction is {fraction}; expected a number up to 1 that gives an even part of the width of a "
                f"head, {settings.per_head}"
            )

    @classmethod
    def _turned(cls, settings: PositionSettings) -> int:
        """R, how many numbers of a head are turned."""
        fraction = settings.position.fraction
        return settings.per_head if fraction is None else int(settings.per_head * fraction)

    @classmethod
    def _check_scaling(cls, own: RotaryConfig, turned: int, context: int | None) -> None:
        if own.context is None:
            return
        if context is not None and context <= own.context and own.factor is None:
            raise ConfigError(
                f"model.context = {context} is not longer than model.position.context = {own.context}. "
                "Set model.context to the longer context, or remove model.position.scaling"
            )
        if turned < 4 or own.base <= 1:
            raise ConfigError(
                f'model.position.scaling = "{own.scaling}" needs heads of width 4 or more and model.position.base above 1; given '
                f"{turned} and {own.base}"
            )

    @classmethod
    def of(cls, settings: PositionSettings, bidirectional: bool) -> Self:
        return cls.made(settings.position, settings, bidirectional)

    @classmethod
    def made(cls, own: RotaryConfig, settings: PositionSettings, bidirectional: bool) -> Self:
        context = context_of(settings)
        scaling = None if own.context is None else Scaling(own.scaling, own.context, own.factor or context / own.context)
        return cls(context, settings.per_head, own.base, scaling, cls._turned(settings))

    @classmethod
    def in_windows(cls, settings: PositionSettings, bidirectional: bool) -> Self | None:
        own: RotaryConfig = settings.position
        return None if own.base_local is None else cls.made(own.in_windows(), settings, bidirectional)

    @property
    def steady(self) -> int | None:
        """Up to how many positions the rotations do not depend on the length of the text; None: they never do."""
        return self.scaling.trained if self.scaling is not None and self.scaling.kind == "dynamic" else None

    def reach(self, length: int) -> None:
        if self.steady is not None and length > self.steady:
            raise ConfigError(_in_parts(self.steady))
        self.turn(0, length)

    def turn(self, start: int | Tensor, length: int) -> RotaryTurn:
        """The rotations of positions start … start + length − 1, for every layer."""
        if isinstance(start, Tensor):
            position_BT = positions(start, length).clamp(max=self.turn_2TD.shape[1] - 1)
            return RotaryTurn(*self.turn_2TD[:, position_BT].unsqueeze(2).unbind(0))
        if self.steady is not None and start + length > self.steady:
            if start:
                raise ConfigError(_in_parts(self.steady))
            position_T = torch.arange(length, device=self.turn_2TD.device)
            return RotaryTurn(*self._turns(position_T).float().to(self.turn_2TD.dtype).unbind(0))
        if start + length > self.turn_2TD.shape[1]:
            with torch.inference_mode(False):  # a table that grew while generating must still serve training
                position_T = torch.arange(self.steady or 2 * (start + length), device=self.turn_2TD.device)
                self.turn_2TD = self._turns(position_T).float().to(self.turn_2TD.dtype)
        return RotaryTurn(*self.turn_2TD[:, start : start + length].unbind(0))

    def _turns(self, position_T: Tensor) -> Tensor:
        scaling = None if self.scaling is None else self.scaling.of_text(len(position_T))
        turn_2TD = turns_at(position_T, self.turned or self.head_width, self.base, scaling)
        return with_still_pairs(turn_2TD, self.head_width)

    @classmethod
    def example(cls, heads: int, head_width: int, value_width: int | None, draw: Draw) -> PositionExample:
        return PositionExample(rotary(), turned=", both rotated by their positions")


def rotate(x_BHTD: Tensor, turn: RotaryTurn, out: Tensor | None = None) -> Tensor:
    """(x_1 cos − x_2 sin, x_2 cos + x_1 sin) for the halves x_1, x_2 of each head; written to `out` if given."""
    cos_TD, sin_TD = turn.like(x_BHTD)
    swapped_BHTD = x_BHTD.roll(x_BHTD.shape[-1] // 2, -1)
    return torch.addcmul(x_BHTD * cos_TD, swapped_BHTD, sin_TD, out=out)


class Rotation(NamedTuple):
    """The `position` argument with which attend() turns q and k itself. A model turns them before they are cached."""

    base: float
    scaling: Scaling | None = None

    def turned(self, x_BHTD: Tensor, position_BT: Tensor) -> Tensor:
        """x turned by its positions, which may differ by row."""
        if x_BHTD.shape[-1] % 2:
            raise ConfigError(f"rotary positions rotate pairs, so q and k must have an even width; given {x_BHTD.shape[-1]}")
        cos_BTD, sin_BTD = turns_at(position_BT, x_BHTD.shape[-1], self.base, self.scaling).unbind(0)
        return rotate(x_BHTD, RotaryTurn(cos_BTD.unsqueeze(1), sin_BTD.unsqueeze(1)))


def rotary(base: float = 10_000.0, scaling: Scaling | None = None) -> Rotation:
    if scaling is not None and scaling.kind == "dynamic":
        raise ConfigError('"dynamic" depends on the length of the text; give position.rotary the scaling.of_text(length)')
    return Rotation(base, scaling)


def _in_parts(most: int) -> str:
    return (
        f'with model.position.scaling = "dynamic", a text beyond model.position.context = {most} tokens cannot be read in parts, '
        'such as token by token: its positions depend on its length. Read it at once, or choose "yarn"'
    )


def turns_at(position_T: Tensor, width: int, base: float, scaling: Scaling | None) -> Tensor:
    """The rotations of heads of this width at these positions, in float64."""
    if scaling is None:
        return turns(angles(position_T, width, base))
    omega = scaling.frequencies(width, base, position_T.device)
    return scaling.magnitude * turns(position_T.to(torch.float64).unsqueeze(-1) * omega)


def turns(angle: Tensor) -> Tensor:
    """(cos θ, cos θ) and (−sin θ, sin θ), each as wide as a head, so that a rotation is two products and a sum."""
    cos, sin = angle.cos(), angle.sin()
    return torch.stack((torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)))


def with_still_pairs(turn_2TR: Tensor, width: int) -> Tensor:
    """The rotations for heads of this width, of which the last pairs stay as they are: cos θ = 1, sin θ = 0."""
    R = turn_2TR.shape[-1]
    if width == R:
        return turn_2TR
    still_2Tn = torch.zeros_like(turn_2TR[..., :1]).expand(-1, -1, (width - R) // 2).clone()
    still_2Tn[0] = 1.0
    first_2Tr, second_2Tr = turn_2TR.chunk(2, dim=-1)
    return torch.cat((first_2Tr, still_2Tn, second_2Tr, still_2Tn), dim=-1)


def partial_order(width: int, turned: int) -> list[int]:
    """The order of our head's numbers in GPT-NeoX, which rotates the first `turned` numbers in halves of their own. W^Q and W^K
    with their rows in this order give the same q·k."""
    rest = range(turned, width)
    middle = len(rest) // 2
    return [*range(turned // 2), *rest[:middle], *range(turned // 2, turned), *rest[middle:]]
