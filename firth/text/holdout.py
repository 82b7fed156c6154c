"""The parts of a data set: for training, for validation and for testing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from firth.errors import DataError
from firth.text.batches.permutation import keys, permuted

if TYPE_CHECKING:
    from firth.text.config import DataConfig
    from firth.text.tokenizers.tokenizer import Tokenizer

T = TypeVar("T")

_SPLIT = 1  # the purpose of the key


@dataclass(frozen=True)
class SplitData(Generic[T]):
    """The data of a run, with their tokenizer."""

    tokenizer: Tokenizer
    train: T
    valid: T | None
    test: T | None
    sha256: str  # of what was split into training and held-out part
    notice: str | None = None  # on what is too long to be trained on; None if nothing is


def parts(
    data: DataConfig,
    whole: list[T],
    read: Callable[[str], Iterable[T]],
    what: str,
    together: Callable[[T], str] | None = None,
) -> tuple[list[T], list[T] | None, list[T] | None]:
    """Training, validation and test. Without a file for validation, `data.valid` of the items are held out (see `held_out`)."""
    valid, test = (None if path is None else list(read(path)) for path in (data.valid_path, data.test_path))
    if valid is not None or not data.valid:
        return whole, valid, test
    return *held_out(whole, data.valid, what, together), test


def held_out(items: Sequence[T], share: float, what: str, together: Callable[[T], str] | None = None) -> tuple[list[T], list[T]]:
    """The training part and the held-out part, after a shuffle that depends on the number of items alone. Items with the same
    `together` stay in the same part. `what` names the items in messages."""
    groups = [[item] for item in items] if together is None else _groups(items, together)
    key = keys(0, np.zeros(1, np.uint64), _SPLIT)
    order = permuted(np.arange(len(groups), dtype=np.uint64), len(groups), key).tolist()
    ends = np.cumsum([len(groups[place]) for place in order])
    cut = int((ends <= int((1 - share) * len(items))).sum())
    if cut == 0:
        raise DataError(
            f"data.valid = {share} leaves none of {len(items):,} {what} for training. Use more data, or a smaller data.valid."
        )
    train, rest = ([item for place in part for item in groups[place]] for part in (order[:cut], order[cut:]))
    return train, rest


def _groups(items: Sequence[T], together: Callable[[T], str]) -> list[list[T]]:
    by_key: dict[str, list[T]] = {}
    for item in items:
        by_key.setdefault(together(item), []).append(item)
    return list(by_key.values())
