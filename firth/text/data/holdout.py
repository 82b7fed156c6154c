"""What is held out to validate on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from firth.errors import DataError
from firth.text.batches.permutation import keys, permuted

T = TypeVar("T")

_SPLIT = 1  # what a key is for


def held_out(items: list[T], share: float, alike: Callable[[T], str], what: str) -> tuple[list[T], list[T]]:
    """Those to train on and the rest, in an order that depends on their number alone; all that are `alike` are on the same side
    of the cut."""
    by_key: dict[str, list[T]] = {}
    for item in items:
        by_key.setdefault(alike(item), []).append(item)
    groups = list(by_key.values())
    key = keys(0, np.zeros(1, np.uint64), _SPLIT)
    order = permuted(np.arange(len(groups), dtype=np.uint64), len(groups), key).tolist()
    ends = np.cumsum([len(groups[place]) for place in order])
    cut = int((ends <= int((1 - share) * len(items))).sum())
    if cut == 0:
        raise DataError(
            f"with data.valid = {share} nothing is left of {len(items):,} {what} to train on; give more, or a smaller share"
        )
    train, rest = ([item for place in part for item in groups[place]] for part in (order[:cut], order[cut:]))
    return train, rest
