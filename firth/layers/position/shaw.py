"""Shaw: a query sees the key k + a^K_r and the value v + a^V_r, r = clip(k − q, −c, c), c = `max_distance`, with one pair of
tables for all heads of a layer (Shaw et al. 2018, eq. 3–4).

Letters: R rows of a table: 2c + 1, or c + 1 if not `bidirectional`, when every later key counts as distance 0, as in a causal
model; D key width, E value width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from torch import Tensor

from firth.config import renamed
from firth.errors import ConfigError
from firth.layers.position.relative import Relative
from firth.layers.position.scheme import Draw, PositionConfig, PositionExample, PositionScheme, PositionSettings, Shape

MAX_DISTANCE = 64  # if a recipe gives none


@dataclass(frozen=True, eq=False)
class Shaw(Relative):
    """Either table may be missing."""

    key_RD: Tensor | None
    value_RE: Tensor | None
    bidirectional: bool = True

    def __post_init__(self) -> None:
        for table in (self.key_RD, self.value_RE):
            if table is not None and table.ndim != 2:
                raise ConfigError(f"position.shaw takes tables of distances × width; given a shape of {tuple(table.shape)}")
        given = [len(table) for table in (self.key_RD, self.value_RE) if table is not None]
        if not given or len(set(given)) > 1 or given[0] == 0 or (self.bidirectional and given[0] % 2 == 0):
            raise ConfigError(
                f"Shaw's tables have {' and '.join(map(str, given)) or 'no'} rows; "
                f"expected {'2·max_distance' if self.bidirectional else 'max_distance'} + 1, the same for keys and values"
            )

    def check(self, H: int, C: int, E: int) -> None:
        for name, table, width in (("key", self.key_RD, C), ("value", self.value_RE, E)):
            if table is not None and table.shape[1] != width:
                raise ConfigError(f"position.shaw's {name} table is {table.shape[1]} wide; the {name}s are {width} wide")

    @property
    def rows(self) -> int:
        table = self.key_RD if self.key_RD is not None else self.value_RE
        assert table is not None
        return len(table)

    @property
    def left(self) -> int:
        """The largest distance c: from it on, one row serves all keys."""
        return self.rows // 2 if self.bidirectional else self.rows - 1

    @property
    def right(self) -> int:
        return self.left if self.bidirectional else 0

    def index_BHQK(self, distance_BHQK: Tensor) -> Tensor:
        """The row of the tables for each pair."""
        return distance_BHQK.clamp(-self.left, self.right) + self.left

    def of_heads(self, head_H: Tensor) -> Shaw:
        return self


def shaw(key_RD: Tensor | None, value_RE: Tensor | None = None, *, bidirectional: bool = True) -> Shaw:
    return Shaw(key_RD, value_RE, bidirectional)


@dataclass(frozen=True)
class ShawTables:
    """The two tables that every attention layer of a model has."""

    max_distance: int
    bidirectional: bool

    def parameters(self, head_width: int) -> dict[str, Shape]:
        rows = 2 * self.max_distance + 1 if self.bidirectional else self.max_distance + 1
        return {"key_RD": (rows, head_width), "value_RE": (rows, head_width)}

    def draw(self, name: str, parameter: Tensor, generator: torch.Generator) -> None:
        parameter.normal_(0.0, parameter.shape[-1] ** -0.5, generator=generator)  # q·a_r sums D products: of order 1

    def relative(self, attend: Any) -> Shaw:
        return Shaw(attend.key_RD, attend.value_RE, self.bidirectional)


@dataclass(frozen=True, kw_only=True)
class ShawConfig(PositionConfig):
    """Vectors of distances, added to keys and values."""

    kind: Literal["shaw"] = "shaw"
    # maximum relative distance; larger distances are treated as equal
    max_distance: int = renamed(".max_distance", ".clip", ".reach", default=MAX_DISTANCE)


class ShawScheme(PositionScheme):
    kind = "shaw"
    label = "relative (Shaw)"
    about = "A trained vector per distance, added to keys and values (Shaw et al. 2018)."
    latex = r"q^\top (k + a^K_{s-t}), \quad v + a^V_{s-t}"
    Config = ShawConfig
    acts_on_scores = True
    oracle = "shaw"

    def __init__(self, max_distance: int, bidirectional: bool) -> None:
        super().__init__()
        self.tables = ShawTables(max_distance, bidirectional)

    @classmethod
    def of(cls, settings: PositionSettings, bidirectional: bool) -> Self:
        return cls(settings.position.max_distance, bidirectional)

    def in_layers(self) -> ShawTables:
        return self.tables

    @classmethod
    def example(cls, heads: int, head_width: int, value_width: int | None, draw: Draw) -> PositionExample:
        rows = 5  # distances −2 … 2
        tables = {"a_K": draw("a_K", (rows, head_width))}
        if value_width is not None:
            tables["a_V"] = draw("a_V", (rows, value_width))
        value = "" if value_width is None else " + a_V[k − q]"
        return PositionExample(Shaw(tables["a_K"], tables.get("a_V")), tables, key=" + a_K[k − q]", value=value)
