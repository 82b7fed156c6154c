"""An axis between two lists of words, such as good … bad, and the place of other words on it.

    a = mean of v̂ over the positive words − mean of v̂ over the negative words        v̂ = v / |v|
    place(w) = cos(w, a) = v̂_w · a / |a|

Letters: V words, d dimension, P words of one list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError
from firth.vectors import search

_SHORTEST = 1e-6  # below this, the difference of two means of unit vectors in float32 is rounding error


@dataclass(frozen=True, eq=False)
class Axis:
    """The place of every word between the negative words (towards −1) and the positive words (towards 1)."""

    positive: tuple[str, ...]
    negative: tuple[str, ...]
    direction_d: NDArray[np.float32]  # of length 1
    index: Mapping[str, int]  # the row of each word
    words: Sequence[str]
    cosine_V: NDArray[np.float32]

    def __getitem__(self, word: str) -> float:
        """The place of a word; a word without a vector is a KeyError."""
        return float(self.cosine_V[self.index[word]])

    def highest(self, topn: int = 10, restrict_vocab: int | None = None) -> list[tuple[str, float]]:
        """The words nearest to the positive end, nearest first, without the words that span the axis."""
        return self._best(self.cosine_V, topn, restrict_vocab)

    def lowest(self, topn: int = 10, restrict_vocab: int | None = None) -> list[tuple[str, float]]:
        """The words nearest to the negative end, nearest first, without the words that span the axis."""
        return self._best(-self.cosine_V, topn, restrict_vocab)

    @property
    def name(self) -> str:
        """bad, awful … good, nice"""
        return f"{', '.join(self.negative)} … {', '.join(self.positive)}"

    def _best(self, score_V: NDArray[np.float32], topn: int, restrict_vocab: int | None) -> list[tuple[str, float]]:
        for name, value in (("topn", topn), ("restrict_vocab", restrict_vocab)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; expected at least 1")
        score_V = score_V[:restrict_vocab]
        spanning = {self.index[word] for word in (*self.positive, *self.negative)}
        order = search.best(score_V, min(topn + len(spanning), len(score_V)))
        return [(self.words[n], float(self.cosine_V[n])) for n in order.tolist() if n not in spanning][:topn]


def direction(positive_Pd: NDArray[np.float32], negative_Pd: NDArray[np.float32]) -> NDArray[np.float32]:
    """a / |a| from the unit vectors of both lists."""
    a_d = positive_Pd.astype(np.float64).mean(0) - negative_Pd.astype(np.float64).mean(0)
    length = float(np.sqrt(a_d @ a_d))
    if length < _SHORTEST:
        raise ConfigError("the two word lists have the same mean vector, so there is no axis between them. Choose other words")
    return np.asarray(a_d / length, np.float32)
