"""ROUGE (Lin 2004): how much of a summary is in the one that was written for the text, and the other way round.

With n of its pieces in common, of s in what was said and r in the reference, each in its number:

    precision = n / s    recall = n / r    F1 = 2 · precision · recall / (precision + recall), 0 where n = 0

The pieces are words (ROUGE-1), pairs of neighbours (ROUGE-2), or the words of the longest common subsequence (ROUGE-L). Words are
runs of ASCII letters and digits in lower case, without stemming: what the package `rouge-score` counts as it comes. What is
written in another script has none of them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True)
class Rouge:
    """Mean F1 over the summaries, 0 to 100."""

    rouge1: float
    rouge2: float
    rougeL: float


def rouge(said: Sequence[str], right: Sequence[str]) -> Rouge:
    """One reference for each summary."""
    pairs = [(_words(one), _words(other)) for one, other in zip(said, right, strict=True)]
    each = (
        [_grams(1, *pair) for pair in pairs],
        [_grams(2, *pair) for pair in pairs],
        [_f1(common_subsequence(*pair), len(pair[0]), len(pair[1])) for pair in pairs],
    )
    return Rouge(*(100 * math.fsum(scores) / len(scores) for scores in each))


def common_subsequence(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest common subsequence. A row of the usual table is one integer, whose bit j is 0 where the length grows
    from j to j + 1, so that each word of `one` costs a few operations on it (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for j, word in enumerate(other):
        places[word] = places.get(word, 0) | 1 << j
    whole = (1 << len(other)) - 1
    row = whole
    for word in one:
        matched = row & places.get(word, 0)
        row = (row + matched | row - matched) & whole
    return len(other) - row.bit_count()


def _grams(n: int, one: Sequence[str], other: Sequence[str]) -> float:
    said, right = (Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1)) for words in (one, other))
    return _f1((said & right).total(), said.total(), right.total())


def _f1(common: int, said: int, right: int) -> float:
    return 2 * common / (said + right) if common else 0.0


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
