"""Counting words as a student would first write it: one pair at a time, in float64, without matrices (Levy et al. 2015).

Words are strings; a table has an entry for each (word, context) that occurs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Pairs = dict[tuple[str, str], float]


def counts(sentences: Sequence[Sequence[str]], window: int, dynamic: bool = False, sample: float = 0.0) -> Pairs:
    """#(w, c), every neighbour at most `window` words away counted as 1. `dynamic`: as the share of the windows 1 … `window` that
    reach it. `sample`: times the probabilities that both words are kept, √(t/f) + t/f at most."""
    words = [word for sentence in sentences for word in sentence]
    table: Pairs = {}
    for sentence in sentences:
        for here, word in enumerate(sentence):
            for there, context in enumerate(sentence):
                away = abs(here - there)
                if 0 < away <= window:
                    reached = sum(away <= m for m in range(1, window + 1)) / window if dynamic else 1.0
                    both = _kept(word, words, sample) * _kept(context, words, sample)
                    table[word, context] = table.get((word, context), 0.0) + reached * both
    return table


def _kept(word: str, words: Sequence[str], sample: float) -> float:
    ratio = sample * len(words) / words.count(word)
    return min(1.0, math.sqrt(ratio) + ratio) if sample else 1.0


def shifted_ppmi(count: Mapping[tuple[str, str], float], smoothing: float = 1.0, negatives: int = 1) -> Pairs:
    """max(0, ln (P(w, c) / (P(w) P_α(c))) − ln k) with P_α(c) = #(c)^α / Σ #(c')^α."""
    total = sum(count.values())
    left = {word: sum(n for (w, _), n in count.items() if w == word) for word, _ in count}
    right = {context: sum(n for (_, c), n in count.items() if c == context) for _, context in count}
    smoothed = {context: n**smoothing / sum(m**smoothing for m in right.values()) for context, n in right.items()}
    return {
        (w, c): max(0.0, math.log((n / total) / (left[w] / total * smoothed[c])) - math.log(negatives))
        for (w, c), n in count.items()
    }
