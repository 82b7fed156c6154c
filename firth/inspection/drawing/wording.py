"""The words of drawings: in English in the code, and in other languages in labels.toml, a table from the English words.

A drawing is made in one language, and for a page or a slide. `making` tells both to every function that writes words.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from firth.config import read_toml
from firth.errors import ConfigError, either
from firth.figures.diagram import Size

Language = Literal["en", "fr", "de", "es", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
LABELS = Path(__file__).parent / "labels.toml"
_THIN = "\u202f"  # a narrow space that does not break
_MARKS: dict[Language, tuple[str, str]] = {  # between thousands, and before decimals
    "en": (",", "."), "fr": (_THIN, ","), "de": (".", ","), "es": (_THIN, ","), "zh": (",", "."),
}  # fmt: skip


@dataclass(frozen=True)
class _Manner:
    language: Language = "en"
    size: Size = "page"


_ENGLISH = _Manner()
_MANNER: ContextVar[_Manner] = ContextVar("manner of a drawing", default=_ENGLISH)


@contextmanager
def making(language: str, size: Size) -> Iterator[None]:
    """Make the drawings inside in this language and for this size of paper."""
    if language not in LANGUAGES:
        raise ConfigError(f'there are no labels in the language "{language}"; choose {either(LANGUAGES)}.')
    before = _MANNER.set(_Manner(language, size))
    try:
        yield
    finally:
        _MANNER.reset(before)


def on_slide() -> bool:
    return _MANNER.get().size == "slide"


def translated(english: str) -> str:
    """The words in the language of the drawing. What has no translation, such as the label of an idea of one's own, stays."""
    return translations().get(english, {}).get(_MANNER.get().language, english)


def say(english: str, /, **values: object) -> str:
    """`translated`, with values in the places that are named in braces."""
    return translated(english).format(**values)


@functools.cache
def translations() -> Mapping[str, Mapping[str, str]]:
    """English words → language → words."""
    table: Any = read_toml(LABELS)
    return {english: dict(zip(table["languages"], words, strict=bool(words))) for english, words in table["labels"].items()}


def number(value: int) -> str:
    """1,234 in the manner of the language."""
    return f"{value:,}".replace(",", _MARKS[_MANNER.get().language][0])


def decimal(value: float, places: int | None = None) -> str:
    """A number with so many decimals, or with as many as it needs of four digits."""
    return (f"{value:.4g}" if places is None else f"{value:.{places}f}").replace(".", _MARKS[_MANNER.get().language][1])


def of(count: int, thing: str) -> str:
    """1 layer, 2 layers."""
    return say(f"{{n}} {thing}" if count == 1 else f"{{n}} {thing}s", n=number(count))


def title_of(idea: Any) -> str:
    """The label of an idea."""
    return translated(idea.title())
