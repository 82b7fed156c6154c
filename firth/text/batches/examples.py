"""Encoded texts with a label each, and batches of them whose position in the data is one integer.

Letters: N examples, B rows of a batch, T tokens of its longest text. The examples are held in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.text.batches.buckets import Sweepable
from firth.text.batches.padding import concatenated, padded_rows
from firth.text.tokenizers.special_tokens import Ids


@dataclass(frozen=True, slots=True)
class LabelledBatch:
    token_BT: NDArray[np.int64]  # padded with 0; the model reads the first `length_B` of each row
    length_B: NDArray[np.int64]
    label_B: NDArray[np.int64]
    fresh: bool = True

    @property
    def tokens(self) -> int:
        """Without padding."""
        return int(self.length_B.sum())


@dataclass(frozen=True)
class Examples(Sweepable[LabelledBatch]):
    """Encoded texts, concatenated, and the number of each one's label."""

    ids: Ids
    starts: NDArray[np.int64]  # where each text begins, and where the last one ends: N + 1 numbers
    label_N: NDArray[np.int64]

    @property
    def tokens(self) -> int:
        return len(self.ids)

    def batch(self, row_B: NDArray[np.int64]) -> LabelledBatch:
        return LabelledBatch(*padded_rows(self.ids, self.starts, row_B), self.label_N[row_B])

    def within(self, limit: int | None) -> Examples:
        """The examples of at most `limit` tokens."""
        if limit is None or not (self.length_N > limit).any():
            return self
        kept = np.flatnonzero(self.length_N <= limit)
        texts = [self.ids[self.starts[row] : self.starts[row + 1]] for row in kept]
        return Examples.of(texts, self.label_N[kept])

    @classmethod
    def of(cls, texts: Sequence[Ids], label_N: NDArray[np.int64]) -> Examples:
        return cls(*concatenated(texts), label_N)
