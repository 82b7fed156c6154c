"""Learned: x_t + e_t, one trained vector per position (Gehring et al. 2017). It ends with the context it was trained for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.position.scheme import AddedPosition, Draw, PositionConfig, PositionSettings, context_of


@dataclass(frozen=True, kw_only=True)
class LearnedConfig(PositionConfig):
    """One trained vector for each position, up to `context`."""

    kind: Literal["learned"] = "learned"


class Learned(AddedPosition):
    kind = "learned"
    about = "One trained vector per position, added to the embedding (Gehring et al. 2017)."
    latex = r"x_t + e_t"
    Config: ClassVar[type[PositionConfig]] = LearnedConfig
    transfers = True
    ends = True

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.table_Td = nn.Parameter(torch.empty(context, width))

    @classmethod
    def of(cls, settings: PositionSettings, bidirectional: bool) -> Self:
        return cls(context_of(settings), settings.embedding_width)

    @property
    def end(self) -> int:
        return len(self.table_Td)

    def forward(self, start: int, length: int) -> Tensor:
        if start + length > len(self.table_Td):
            raise ConfigError(
                f"position {start + length} is beyond model.context = {len(self.table_Td)}, where learned positions end; "
                "use fewer tokens, a larger model.context, or model.position=rotary"
            )
        return self.table_Td[start : start + length]

    def draw(self, name: str, parameter: Tensor, generator: torch.Generator, embedding_std: float) -> None:
        parameter.normal_(0.0, embedding_std, generator=generator)  # as large as the vectors they are added to

    @classmethod
    def example_vectors(cls, length: int, width: int, draw: Draw) -> Tensor:
        return torch.stack([draw(f"p_{t}", (width,)) for t in range(length)])
