"""Rows of different lengths side by side, padded to the longest. Letters: N texts, B rows of a batch, T tokens of its longest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from firth.text.tokenizers.special_tokens import Ids

Ints = NDArray[np.int64]

PADDING = -1  # the target of a padded position: no loss is counted there


def padded(texts: Sequence[Ids], padding: int = 0) -> tuple[Ints, Ints]:
    """token_BT, as wide as the longest text, and length_B."""
    return padded_rows(*concatenated(texts), np.arange(len(texts)), padding)


def padded_rows(flat: Ids, starts: Ints, row_B: Ints, padding: int = 0) -> tuple[Ints, Ints]:
    """`padded` for the texts `row_B` of concatenated ones: text n is flat[starts[n] : starts[n + 1]]."""
    start_B, length_B = starts[row_B], starts[row_B + 1] - starts[row_B]
    place_T = np.arange(int(length_B.max(initial=0)))
    inside_BT = place_T < length_B[:, None]
    if not inside_BT.any():
        return np.full(inside_BT.shape, padding, np.int64), length_B
    token_BT = flat[np.where(inside_BT, start_B[:, None] + place_T, 0)].astype(np.int64)
    return np.where(inside_BT, token_BT, padding), length_B


def concatenated(texts: Sequence[Ids]) -> tuple[Ids, Ints]:
    """All texts in one array, and where each begins."""
    return np.concatenate(texts) if len(texts) else np.zeros(0, np.uint16), starts_of(map(len, texts))


def starts_of(lengths: Iterable[int]) -> Ints:
    """The beginnings of N consecutive texts and the end of the last: N + 1 numbers."""
    return np.cumsum([0, *lengths], dtype=np.int64)
