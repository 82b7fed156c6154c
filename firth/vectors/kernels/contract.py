"""The contract that every training kernel fulfils, and the array types it works on."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.uint32]
Longs = npt.NDArray[np.int64]
LINE = 64  # bytes of a cache line


class Counts(NamedTuple):
    loss: float  # Σ of −log likelihood over the terms, negative samples included
    terms: int  # pairs (skip-gram) or centre words (CBOW)
    words: int  # words of the corpus, before subsampling

    @property
    def mean(self) -> float:
        return self.loss / self.terms if self.terms else float("nan")


class Kernel(Protocol):
    def __call__(self, ids: Ids, ends: Longs, first: int, last: int, rate_first: float, rate_last: float, seed: int) -> Counts:
        """Train on sentences first … last − 1, where sentence s is ids[ends[s − 1] : ends[s]]; the rate falls linearly."""
        ...
