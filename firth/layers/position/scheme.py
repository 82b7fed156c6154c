"""The base of position schemes: where it acts in a Transformer, its parameters, and the settings it understands.

A scheme acts in one or more of three places, each a method that does nothing unless the scheme defines it:

    embed      x_t ← x_t + p_t                      on the embedded tokens
    turn       q_t ← R_t q_t, k_s ← R_s k_s         on q and k of every layer
    relative   s_ts ← s_ts + b(s − t), …            inside attend(), from the distance alone

Letters: B batch, T time, d model width, D head width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, make_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn

from firth.config import SubTable
from firth.errors import ConfigError
from firth.ideas import Idea
from firth.layers.position.relative import Relative

if TYPE_CHECKING:
    from firth.layers.attention.config import AttentionConfig
    from firth.layers.norm import NormConfig

Shape = tuple[int, ...]


class RotaryTurn(NamedTuple):
    """The rotation of the positions of a window: cos θ for both halves of a head, and sin θ, negative for the first half. Where
    rows start at different positions, both are B,1,T,D."""

    cos_TD: Tensor
    sin_TD: Tensor

    def like(self, x: Tensor) -> RotaryTurn:
        return self if self.cos_TD.dtype == x.dtype else RotaryTurn(self.cos_TD.to(x.dtype), self.sin_TD.to(x.dtype))

    def back(self) -> RotaryTurn:
        return RotaryTurn(self.cos_TD, -self.sin_TD)


@dataclass(frozen=True, eq=False)
class Unprojected(ABC):
    """Vectors of distances, as wide as the model: every attention layer projects them like its keys and queries."""

    vector_Rd: Tensor

    @abstractmethod
    def projected(self, key_HRD: Tensor, query_HRD: Tensor) -> Relative: ...


LayerPosition = RotaryTurn | Relative | Unprojected | None  # what a scheme passes to every attention layer


@dataclass(frozen=True, kw_only=True)
class PositionConfig(SubTable):
    """The table [model.position]; each scheme has a class of its own."""

    kind: str  # position scheme

    @property
    def steady(self) -> int | None:
        """The longest text whose positions do not depend on the other texts of its batch; None: any length."""
        return None


class PositionSettings(Protocol):
    """The settings of every Transformer that position schemes use."""

    @property
    def width(self) -> int: ...
    @property
    def embedding_width(self) -> int: ...
    @property
    def per_head(self) -> int: ...
    @property
    def context(self) -> int | None: ...
    @property
    def attention(self) -> AttentionConfig: ...
    @property
    def norm(self) -> NormConfig: ...
    @property
    def position(self) -> Any:
        """The scheme's own."""


Draw = Callable[[str, Shape], Tensor]  # standard normal numbers for a name and a shape


class PositionExample(NamedTuple):
    """A scheme in the attention playground: what attend() gets, the tables it was drawn from, and how its equations read."""

    position: Any = None  # a Relative or a Rotation
    tables: Mapping[str, Tensor] = {}
    turned: str = ""  # said of q and k
    key: str = ""  # added to the key
    bias: str = ""  # added to the scaled score
    value: str = ""  # added to the value
    whole: str = "{}"  # the score, in braces, with what is added to it before scaling
    turn: Any = None  # of q and k before attend(), by their first position and number


class LayerTables(Protocol):
    """Tables that a scheme has in every attention layer. They are registered on the layer's Attend."""

    def parameters(self, head_width: int) -> dict[str, Shape]: ...

    def draw(self, name: str, parameter: Tensor, generator: torch.Generator) -> None: ...

    def relative(self, attend: Any) -> Relative: ...


class PositionScheme(Idea, nn.Module):
    Config: ClassVar[type[PositionConfig]]  # its settings; a scheme without any needs none
    attribute: ClassVar[str] = "position"  # where a model keeps the scheme: its parameters' names begin with it
    turns: ClassVar[bool] = False  # whether `turn` gives a rotation
    acts_on_scores: ClassVar[bool] = False  # whether it acts inside attend()
    ends: ClassVar[bool] = False  # whether there is a last position, that of the context
    scales_embedding: ClassVar[bool] = False  # whether embedded tokens are multiplied by √d, unless a recipe says otherwise
    # whether its parameters, if it has any, need no other initial values or learning rates at another width (muP, firth/models)
    transfers: ClassVar[bool] = False
    own_projections: bool = False  # whether each layer has matrices of its own for an Unprojected position
    oracle: ClassVar[str | None] = None  # the same in firth.oracles.position

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "kind" in vars(cls) and "Config" not in vars(cls):
            kind = ("kind", Literal[cls.kind], field(default=cls.kind))
            place = {"__doc__": cls.about, "__qualname__": f"{cls.__qualname__}.Config"}
            cls.Config = make_dataclass("Config", [kind], bases=(PositionConfig,), namespace=place, frozen=True, kw_only=True)
            cls.Config.__module__ = cls.__module__  # where pickle looks for it; Python 3.12 and later set it to this module

    @classmethod
    def check(cls, settings: PositionSettings) -> None:  # most schemes fit every model
        """Raise if the settings of a model do not fit the scheme."""

    @classmethod
    def of(cls, settings: PositionSettings, bidirectional: bool) -> Self:
        """The scheme of a model; `bidirectional`: a query may see keys after it, so that distances have a sign."""
        return cls()

    @classmethod
    def in_windows(cls, settings: PositionSettings, bidirectional: bool) -> Self | None:
        """The scheme of the layers that attend to a window, if theirs is another."""
        return None

    @classmethod
    def acts_on_embedding(cls) -> bool:
        return cls.embed is not PositionScheme.embed

    @classmethod
    def acts(cls) -> bool:
        """True if it acts anywhere."""
        return cls.acts_on_embedding() or cls.turns or cls.acts_on_scores

    @property
    def end(self) -> int | None:
        """The number of positions; None: they have no end."""
        return None

    def embed(self, x_BTd: Tensor, start: int | Tensor, before_B: Tensor | None = None) -> Tensor:
        """Embedded tokens with their positions, the first of them at `start`, an int or one per row; `before_B` tokens before a
        row are padding."""
        return x_BTd

    def turn(self, start: int | Tensor, length: int) -> RotaryTurn | None:
        return None

    def reach(self, length: int) -> None:  # most schemes reach any length
        """Make the tables long enough for a text of this length, before the starts of rows are tensors."""

    def relative(self) -> Relative | Unprojected | None:
        return None

    def in_layers(self) -> LayerTables | None:
        return None

    def draw(self, name: str, parameter: Tensor, generator: torch.Generator, embedding_std: float) -> None:
        """Draw the initial values of the parameter `name` in place."""
        parameter.zero_()

    @classmethod
    def example(cls, heads: int, head_width: int, value_width: int | None, draw: Draw) -> PositionExample:
        """The scheme inside attend(), with few rows per table; `value_width` is None where values have no positions. Without this
        method, the playground runs the scheme as it is in a small model."""
        return PositionExample()

    @classmethod
    def example_vectors(cls, length: int, width: int, draw: Draw) -> Tensor | None:
        """p_Td, for schemes that add it to the embedding."""
        return None


class AddedPosition(PositionScheme):
    """A scheme that adds a vector p_t to each embedded token; `forward` gives those of `length` positions from `start` on."""

    table_Td: Tensor

    @abstractmethod
    def forward(self, start: int, length: int) -> Tensor: ...

    def embed(self, x_BTd: Tensor, start: int | Tensor, before_B: Tensor | None = None) -> Tensor:
        return x_BTd + self._vectors(start, x_BTd.shape[1], before_B)

    def reach(self, length: int) -> None:
        self(0, length if self.end is None else min(length, self.end))

    def _vectors(self, start: int | Tensor, length: int, before_B: Tensor | None) -> Tensor:
        if isinstance(start, Tensor):
            position_BT = positions(start if before_B is None else start - before_B, length)
            return self.table_Td[position_BT.clamp(0, len(self.table_Td) - 1)]
        if before_B is None or not len(before_B):
            p_Td: Tensor = self(start, length)
            return p_Td
        position_BT = torch.arange(start, start + length, device=before_B.device) - before_B[:, None]
        p_Td = self(0, start + length - int(before_B.min()))
        return p_Td[position_BT.clamp(min=0)]


def positions(start_B: Tensor, length: int) -> Tensor:
    """position_BT of `length` tokens in each row."""
    return start_B[:, None] + torch.arange(length, device=start_B.device)


def context_of(settings: PositionSettings) -> int:
    if settings.context is None:
        raise ConfigError("model.context is missing; a Transformer needs the length of the longest text it processes at once")
    return settings.context
