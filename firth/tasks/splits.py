"""The part of a run's own data that is evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar, get_args

from firth.errors import ConfigError, DataError, did_you_mean, option
from firth.text.config import DataConfig
from firth.text.holdout import SplitData

Split = Literal["train", "valid", "test"]

_PATH = option("a path", "--data PATH")

T = TypeVar("T")


def check_split(data: DataConfig, path: str | Path | None, split: str | None) -> None:
    """Refuse a path and a split at once, an unknown split, and standard input a second time."""
    if path is not None and split is not None:
        raise ConfigError(f'the file {path} and the split "{split}" cannot be combined. Remove one of them.')
    if split is not None and split not in get_args(Split):
        raise ConfigError(f'unknown split "{split}"; choose train, valid or test.{did_you_mean(split, get_args(Split))}')
    if path is None and not data.given:
        raise DataError(f"this model was imported without its training data. Give {_PATH}.")
    if path is None and data.path == "-":
        raise DataError(f"this run was trained on standard input, which cannot be read again. Give {_PATH}.")


def chosen(data: SplitData[T], split: str | None) -> tuple[str, T]:
    """The name and the data of `split`; by default test, validation or training, the first that exists."""
    own: dict[str, T] = {name: part for name in ("test", "valid", "train") if (part := getattr(data, name)) is not None}
    if split is not None and split not in own:
        raise DataError(f"this run has no {split} data, only {' and '.join(own)}. Choose one of them, or give {_PATH}.")
    name = split or next(iter(own))
    return name, own[name]
