"""ROUGE (Lin 2004): the overlap of a summary with its reference.

With n units in common, s in the summary and r in the reference, counted as multisets:

    precision = n / s    recall = n / r    F1 = 2 · precision · recall / (precision + recall), 0 where n = 0

The units are words (ROUGE-1), bigrams (ROUGE-2), or the words of the longest common subsequence (ROUGE-L). Words are runs of
ASCII letters and digits in lower case, without stemming, as in the package `rouge-score` by default. Text in another script has
no such words.
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


def rouge(summaries: Sequence[str], references: Sequence[str]) -> Rouge:
    """One reference per summary."""
    pairs = [(_words(one), _words(other)) for one, other in zip(summaries, references, strict=True)]
    each = (
        [_ngram_f1(1, *pair) for pair in pairs],
        [_ngram_f1(2, *pair) for pair in pairs],
        [_f1(common_subsequence(*pair), len(pair[0]), len(pair[1])) for pair in pairs],
    )
    return Rouge(*(100 * math.fsum(scores) / len(scores) for scores in each))


def common_subsequence(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest common subsequence. Each row of the dynamic-programming table is one integer whose bit j is 0 where
    the length grows from j to j + 1, so each word of `one` costs only a few operations (Hyyrö 2004)."""
    positions: dict[str, int] = {}
    for j, word in enumerate(other):
        positions[word] = positions.get(word, 0) | 1 << j
    all_ones = (1 << len(other)) - 1
    row = all_ones
    for word in one:
        matched = row & positions.get(word, 0)
        row = (row + matched | row - matched) & all_ones
    return len(other) - row.bit_count()


def _ngram_f1(n: int, summary: Sequence[str], reference: Sequence[str]) -> float:
    one, other = (Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1)) for words in (summary, reference))
    return _f1((one & other).total(), one.total(), other.total())


def _f1(common: int, predicted: int, reference: int) -> float:
    return 2 * common / (predicted + reference) if common else 0.0


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
