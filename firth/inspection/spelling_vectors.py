"""Vectors of words by their spelling: similar spellings have similar vectors, and nothing is random.

    x_w ∝ (how often each group of 2 or 3 letters occurs in ⟨w⟩)        the two marks are letters, so that ends count, too

The cosine of two such vectors is 1 for the same spelling, ignoring case, and 0 for words without a common group.
Letters: n words, d dimensions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from firth.errors import DataError

Array = npt.NDArray[np.float64]
SHARPNESS = 8.0  # q·k / √d of a word with itself. 7 or more: the right key among 64 unrelated ones gets a weight above 0.9
_SIZES = (2, 3)
_FIRST, _LAST = "\x02", "\x03"  # no letter of any word
_WIDEST = 4096  # dimensions: the bilinear score has a d × d matrix


def letter_groups(word: str) -> Counter[str]:
    """Every group of 2 or 3 consecutive letters, with its count: ⟨tom⟩ has ⟨t, to, om, m⟩, ⟨to, tom, om⟩."""
    marked = f"{_FIRST}{word.casefold()}{_LAST}"
    return Counter(marked[n : n + size] for size in _SIZES for n in range(len(marked) - size + 1))


def spelling_vectors(words: Sequence[str]) -> Array:
    """One dimension per distinct group, filled up with zeros to a power of 4 so that √d is whole and heads divide d."""
    groups = [letter_groups(word) for word in words]
    number = {group: n for n, group in enumerate(dict.fromkeys(group for one in groups for group in one))}
    d = 64
    while d < len(number):
        d *= 4
    if d > _WIDEST:
        raise DataError(f"the keys have {len(number):,} different groups of letters; expected at most {_WIDEST:,}. Shorten them")
    spread = round(0.618 * d) | 1  # odd, hence a permutation; neighbours end far apart, so that each head gets some of every word
    x_nd = np.zeros((len(words), d))
    for x_d, counts in zip(x_nd, groups, strict=True):
        for group, count in counts.items():
            x_d[number[group] * spread % d] = count
    return of_equal_length(x_nd)


def of_equal_length(x_nd: Array) -> Array:
    """Lengths with x·x / √d = SHARPNESS, so that the scaled dot product is SHARPNESS · cosine in any dimension."""
    length_n1 = np.linalg.norm(x_nd, axis=1, keepdims=True)
    scaled: Array = x_nd * np.sqrt(SHARPNESS * np.sqrt(x_nd.shape[1])) / np.where(length_n1 > 0, length_n1, 1)
    return scaled
