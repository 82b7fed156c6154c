"""Which of a run's own texts to evaluate on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar, get_args

from firth.api.recipe import Recipe, Split
from firth.errors import ConfigError, DataError, did_you_mean

T = TypeVar("T")


def check_choice(recipe: Recipe, path: str | Path | None, split: str | None) -> None:
    """Refuse what cannot be read: a path and a split at once, a split that is none, standard input a second time."""
    if path is not None and split is not None:
        raise ConfigError(f'a text to read, {path}, and a split of the run\'s own, "{split}", were given; give one of them')
    if split is not None and split not in get_args(Split):
        raise ConfigError(f'split is "{split}"; expected train, valid or test.{did_you_mean(split, get_args(Split))}')
    if path is None and recipe.data.path == "-":
        raise DataError("this run read its text from standard input, which cannot be read again; give --data PATH")


def chosen(texts: Mapping[str, T | None], split: str | None) -> tuple[str, T]:
    """The text of `split`; where that is not given, the first that there is."""
    own = {name: text for name, text in texts.items() if text is not None}
    if split is not None and split not in own:
        raise DataError(f"this run has no {split} text, only {' and '.join(own)}; choose one of them, or give --data PATH")
    name = split or next(iter(own))
    return name, own[name]
