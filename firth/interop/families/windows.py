"""Layers that attend to a window, in config.json: sliding_window, and which layers it is for in layer_types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from firth.errors import DataError
from firth.interop.files.config_map import Entry, Settings
from firth.interop.files.foreign_config import ForeignConfig
from firth.interop.files.foreign_json import shown

_LETTERS = {"sliding_attention": "L", "full_attention": "G"}
WINDOWS_FREE = ("attention.span", "attention.window_pattern")
MASKS: Mapping[str, tuple[str, ...]] = MappingProxyType({"attention.mask": ("causal", "window")})


def one_window(default: int | None) -> Entry:
    """All layers attend to a window, of `default` tokens where config.json says nothing, or all to the whole text."""

    def read(config: ForeignConfig, before: Settings) -> Settings:
        span = config.optional("sliding_window", default)
        return {} if span is None else settings_of(["sliding_attention"] * before["depth"], span, before["depth"])

    return Entry(read, lambda model: {"sliding_window": model.attention.span}, ("attention.span",), MASKS)


def settings_of(types: Sequence[str], span: Any, depth: int) -> dict[str, Any]:
    """The settings of [model] for layers of these types."""
    if len(types) != depth or not all(one in _LETTERS for one in types):
        raise DataError(f"config.json: layer_types is {shown(types)}; expected {' or '.join(map(repr, _LETTERS))} for each layer")
    letters = "".join(_LETTERS[one] for one in types)
    if "L" not in letters:
        return {}
    if type(span) is not int or span < 1:
        raise DataError(f"config.json: sliding_window is {shown(span)}; expected a whole number of at least 1")
    return {
        "attention.mask": "window",
        "attention.span": span,
        "attention.window_pattern": _shortest(letters) if "G" in letters else None,
    }


def _shortest(letters: str) -> str:
    """The shortest pattern that gives these letters when it is repeated."""
    lengths = range(1, len(letters) + 1)
    return next(letters[:n] for n in lengths if (letters[:n] * len(letters))[: len(letters)] == letters)


def layer_types(model: Any) -> list[str]:
    """layer_types of a model."""
    names = {letter: name for name, letter in _LETTERS.items()}
    return [names["L" if model.attention.in_layer(layer) == "window" else "G"] for layer in range(model.depth)]
