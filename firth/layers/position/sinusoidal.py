"""Sinusoidal: √d x_t + p_t, p_t = (sin ω_0 t, cos ω_0 t, sin ω_1 t, …), interleaved, ω_i = base^(−2i/d)
(Vaswani et al. 2017, §3.4–3.5). Nothing to train, and no last position. Marian has all sines first, then the cosines ("halves");
for a model that is trained with them, the order makes no difference. In tensor2tensor and fairseq the frequencies end at exactly
1/base, ω_i = base^(−2i/(d − 2)) ("endpoint"), and fairseq's positions begin after the id of its padding token ("first")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor

from firth.config import renamed
from firth.errors import ConfigError
from firth.layers.position.frequencies import angles, check_base
from firth.layers.position.scheme import AddedPosition, Draw, PositionConfig, PositionSettings, context_of

_LAST = 1 << 31
Order = Literal["interleaved", "halves"]


def sinusoid(
    position_T: Tensor, width: int, base: float = 10_000.0, order: Order = "interleaved", endpoint: bool = False
) -> Tensor:
    """p_T in float64."""
    angle = angles(position_T, width, base, endpoint)
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
    endpoint: bool = False  # space the frequencies so that the last is exactly 1/`base`, as in fairseq and tensor2tensor
    first: int = 0  # number of the first position

    def __post_init__(self) -> None:
        check_base(self.base)
        if not 0 <= self.first < _LAST:
            raise ConfigError(f"model.position.first is {self.first}; expected 0 or more, less than {_LAST:,}")


class Sinusoidal(AddedPosition):
    """The sinusoid as a table that grows when needed; it is not saved."""

    kind = "sinusoidal"
    about = "Sines and cosines of the position, added to the embedding (Vaswani et al. 2017)."
    latex = r"x_t + (\sin \omega_0 t, \cos \omega_0 t, \ldots)"
    Config = SinusoidalConfig
    transfers = True
    scales_embedding = True  # Vaswani et al. 2017, §3.4: the factor keeps the token from being drowned by the sinusoid
    oracle = "sinusoid"
    table_Td: Tensor

    def __init__(self, context: int, width: int, config: SinusoidalConfig | None = None) -> None:
        super().__init__()
        if width % 2:
            raise ConfigError(f"sinusoidal positions pair a sine with a cosine, so model.width must be even; given {width}")
        self.width, self.config = width, config or SinusoidalConfig()
        self.register_buffer("table_Td", self._table(torch.arange(context)).float(), persistent=False)

    @classmethod
    def check(cls, settings: PositionSettings) -> None:
        if settings.embedding_width % 2:
            raise ConfigError(
                'model.position = "sinusoidal" pairs a sine with a cosine, so model.width must be even; given '
                f"{settings.embedding_width}. Change it, or the position"
            )
        if settings.position.endpoint and settings.embedding_width < 4:
            raise ConfigError("model.position.endpoint needs two frequencies, so model.width must be at least 4.")

    @classmethod
    def of(cls, settings: PositionSettings, bidirectional: bool) -> Self:
        return cls(context_of(settings), settings.embedding_width, settings.position)

    def _table(self, place_T: Tensor) -> Tensor:
        own = self.config
        return sinusoid(place_T + own.first, self.width, own.base, own.order, own.endpoint)

    def forward(self, start: int, length: int) -> Tensor:
        if start + length > len(self.table_Td):
            with torch.inference_mode(False):  # a table that grew while generating must still serve training
                position_T = torch.arange(2 * (start + length), device=self.table_Td.device)
                self.table_Td = self._table(position_T).float().to(self.table_Td.dtype)
        return self.table_Td[start : start + length]

    @classmethod
    def example_vectors(cls, length: int, width: int, draw: Draw) -> Tensor:
        if width % 2:
            raise ConfigError(
                f"the dimension is {width}; sinusoidal positions need an even one. Change the width or the position"
            )
        return sinusoid(torch.arange(length), width)
