"""The part of a data set that is held out for validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from firth.errors import DataError
from firth.text.batches.permutation import keys, permuted

T = TypeVar("T")

_SPLIT = 1  # the purpose of the key


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
