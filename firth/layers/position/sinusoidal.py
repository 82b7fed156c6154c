"""Sinusoidal: √d x_t + p_t, p_t = (sin ω_0 t, cos ω_0 t, sin ω_1 t, …), interleaved, ω_i = base^(−2i/d)
(Vaswani et al. 2017, §3.4–3.5). Nothing to train, and no last position. Marian has all sines first, then the cosines ("halves");
for a model that is trained with them, the order makes no difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor

from firth.config import renamed
from firth.errors import ConfigError
from firth.layers.position.frequencies import angles, check_base
from firth.layers.position.scheme import AddedPosition, Draw, PositionConfig, PositionSettings, context_of

Order = Literal["interleaved", "halves"]


def sinusoid(position_T: Tensor, width: int, base: float = 10_000.0, order: Order = "interleaved") -> Tensor:
    """p_T in float64."""
    angle = angles(position_T, width, base)
    if order == "halves":
        return torch.cat((angle.sin(), angle.cos()), dim=-1)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2)


@dataclass(frozen=True, kw_only=True)
class SinusoidalConfig(PositionConfig):
    """Sines and cosines of the position, added to the embedded tokens."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    base: float = renamed(".position_base", ".base", default=10_000.0, always_written=True)  # base of the wavelengths
    # order of the sines and cosines: by turns, or all sines first
    order: Order = renamed(".position_order", default="interleaved")

    def __post_init__(self) -> None:
        check_base(self.base)


class Sinusoidal(AddedPosition):
    """The sinusoid as a table that grows when needed; it is not saved."""

    kind = "sinusoidal"
    Config = SinusoidalConfig
    scales_embedding = True  # Vaswani et al. 2017, §3.4: the factor keeps the token from being drowned by the sinusoid
    oracle = "sinusoid"
    table_Td: Tensor

    def __init__(self, context: int, width: int, base: float, order: Order = "interleaved") -> None:
        super().__init__()
        if width % 2:
            raise ConfigError(f"sinusoidal positions pair a sine with a cosine, so model.width must be even; given {width}")
        self.width, self.base, self.order = width, base, order
        self.register_buffer("table_Td", sinusoid(torch.arange(context), width, base, order).float(), persistent=False)

    @classmethod
    def check(cls, settings: PositionSettings) -> None:
        if settings.embedding_width % 2:
            raise ConfigError(
                'model.position = "sinusoidal" pairs a sine with a cosine, so model.width must be even; given '
                f"{settings.embedding_width}. Change it, or the position"
            )

    @classmethod
    def of(cls, settings: PositionSettings, bidirectional: bool) -> Self:
        return cls(context_of(settings), settings.embedding_width, settings.position.base, settings.position.order)

    def forward(self, start: int, length: int) -> Tensor:
        if start + length > len(self.table_Td):
            with torch.inference_mode(False):  # a table that grew while generating must still serve training
                position_T = torch.arange(2 * (start + length), device=self.table_Td.device)
                self.table_Td = sinusoid(position_T, self.width, self.base, self.order).float().to(self.table_Td.dtype)
        return self.table_Td[start : start + length]

    @classmethod
    def example_vectors(cls, length: int, width: int, draw: Draw) -> Tensor:
        if width % 2:
            raise ConfigError(
                f"the dimension is {width}; sinusoidal positions need an even one. Change the width or the position"
            )
        return sinusoid(torch.arange(length), width)
