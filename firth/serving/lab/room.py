"""What a room is: its views, what a view is asked and what it shows."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from firth.errors import ConfigError, did_you_mean
from firth.figures.figure import Figure, Table

if TYPE_CHECKING:
    from firth.serving.lab.shelf import Shelf

LONGEST = 20_000  # characters of a text that the page may send
Number = TypeVar("Number", int, float)


class Cancelled(Exception):
    """Nobody waits for the answer any more."""


class Progress(Protocol):
    def __call__(self, done: float, of: float, message: str) -> None:
        """`done` of `of` are behind us. Raises Cancelled once nobody waits for the rest: long work calls it often."""


@dataclass(frozen=True)
class Shown:
    """What a view answers."""

    figures: Mapping[str, Figure]
    python: str  # makes the same, as it stands, in the folder the lab was started in
    facts: Mapping[str, object] = field(default_factory=dict)  # plain data besides: tokens, probabilities
    table: Table | None = None  # of a view without a figure

    def json(self) -> str:
        """As the page reads it. What is no number (nan) becomes null: JSON has none."""
        figures = {name: {"plot": one.plot.to_plotly_json(), "table": _table(one.table)} for name, one in self.figures.items()}
        table = None if self.table is None else _table(self.table)
        return dumped({"figures": figures, "python": self.python, "facts": self.facts, "table": table})


def dumped(value: object) -> str:
    from plotly.utils import PlotlyJSONEncoder

    return json.dumps(value, cls=PlotlyJSONEncoder, ensure_ascii=False)


def _table(table: Table) -> dict[str, object]:
    return {"headings": list(table.headings), "rows": [list(row) for row in table.rows]}


class Asked:
    """What the page sent, field by field. A number may come as text: that is what a URL holds."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given

    def text(self, name: str, default: str | None = None, most: int = LONGEST) -> str:
        value = self._value(name, default)
        if not isinstance(value, str):
            raise ConfigError(f"{name} is {_short(value)}; expected a text")
        if len(value) > most:
            raise ConfigError(f"{name} has {len(value):,} characters; the lab reads at most {most:,}; shorten it")
        return value

    def number(
        self,
        name: str,
        kind: type[Number],
        default: Number | None = None,
        *,
        least: float | None = None,
        most: float | None = None,
    ) -> Number:
        value = self._value(name, default)
        expected = f"expected {'a whole number' if kind is int else 'a number'}{_range(least, most)}"
        try:
            if isinstance(value, bool) or not isinstance(value, str | int | float) or kind(value) != float(value):
                raise ValueError
            number = kind(value)
        except (ValueError, OverflowError):
            raise ConfigError(f"{name} is {_short(value)}; {expected}") from None
        if not math.isfinite(number) or (least is not None and number < least) or (most is not None and number > most):
            raise ConfigError(f"{name} is {number}; {expected}")
        return number

    def choice(self, name: str, among: Sequence[str], default: str | None = None) -> str:
        value = self.text(name, default)
        if value not in among:
            raise ConfigError(f'{name} is "{value[:60]}"; expected one of {", ".join(among)}.{did_you_mean(value, among)}')
        return value

    def names(self, name: str, default: Sequence[str] | None = None) -> tuple[str, ...]:
        """A list, or a text with white space or commas between the names."""
        value = self._value(name, None if default is None else list(default))
        if isinstance(value, str):
            value = self.text(name).replace(",", " ").split()
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise ConfigError(f"{name} is {_short(value)}; expected names with spaces or commas between them")
        if sum(map(len, value)) > LONGEST:
            raise ConfigError(f"{name} has {sum(map(len, value)):,} characters; the lab reads at most {LONGEST:,}; shorten it")
        return tuple(value)

    def flag(self, name: str, default: bool = False) -> bool:
        match self.given.get(name, default):
            case True | "true":
                return True
            case False | "false" | "":
                return False
            case value:
                raise ConfigError(f"{name} is {_short(value)}; expected true or false")

    def _value(self, name: str, default: object) -> Any:
        value = self.given.get(name)
        if value is None or (value == "" and default is not None and not isinstance(default, str)):
            value = default  # a number that was wiped out of its box
        if value is None:
            raise ConfigError(f"{name} was not given; fill it in")
        return value


class View(Protocol):
    def __call__(self, asked: Asked, shelf: Shelf, progress: Progress) -> Shown: ...


@dataclass(frozen=True)
class Usable:
    """What of the shelf a room can work with; `otherwise` says what to do where that is nothing."""

    names: tuple[str, ...] = ()
    otherwise: str = ""


@dataclass(frozen=True)
class Room:
    name: str
    title: str
    about: str  # one sentence
    views: Mapping[str, View]
    usable: Callable[[Shelf], Usable] = lambda shelf: Usable()


def _short(value: object) -> str:
    text = f'"{value}"' if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:59] + "…"


def _range(least: float | None, most: float | None) -> str:
    match least, most:
        case None, None:
            return ""
        case _, None:
            return f", {least} or more"
        case None, _:
            return f", {most} or less"
    return f" from {least} to {most}"
