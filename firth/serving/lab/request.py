"""ViewRequest: the settings that the page sent, checked field by field."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from firth.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from firth.serving.lab.unknown_text import UnknownText

LONGEST = 20_000  # characters of a text that the page may send
Number = TypeVar("Number", int, float)


class ViewRequest:
    """The settings of one view. Numbers may arrive as strings, because a URL holds nothing else."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings
        self.unknown: dict[str, UnknownText | None] = {}  # the texts that were read, and what the run does not know of them

    def text(self, name: str, default: str | None = None, most: int = LONGEST) -> str:
        value = self._value(name, default)
        if not isinstance(value, str):
            raise ConfigError(f"{name} is {_short(value)}; expected a string")
        if len(value) > most:
            raise ConfigError(f"{name} has {len(value):,} characters; the limit is {most:,}. Shorten it.")
        return value

    def known_text(self, name: str) -> str:
        """A text as the run got it: without the characters that it does not know."""
        unknown = self.unknown.get(name)
        return self.text(name, "") if unknown is None else unknown.kept

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
        """A list of names, or one string with the names separated by spaces, line breaks or commas."""
        value = self._value(name, None if default is None else list(default))
        if isinstance(value, str):
            value = self.text(name).replace(",", " ").split()
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise ConfigError(f"{name} is {_short(value)}; expected names separated by spaces or commas")
        if sum(map(len, value)) > LONGEST:
            raise ConfigError(f"{name} has {sum(map(len, value)):,} characters; the limit is {LONGEST:,}. Shorten it.")
        return tuple(value)

    def flag(self, name: str, default: bool = False) -> bool:
        match self.settings.get(name, default):
            case True | "true":
                return True
            case False | "false" | "":
                return False
            case value:
                raise ConfigError(f"{name} is {_short(value)}; expected true or false")

    def _value(self, name: str, default: object) -> Any:
        value = self.settings.get(name)
        if value is None or (value == "" and default is not None and not isinstance(default, str)):
            value = default  # an emptied number box means the default
        if value is None:
            raise ConfigError(f"{name} is missing; fill it in")
        return value


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
