"""The rows that every step needs, kept apart for each thread.

Two threads that write to the same row send its cache lines to and fro; the root of the tree, which every step of hierarchical
softmax changes, makes two threads slower than one. So where threads work side by side, each call has a copy of the hottest
rows of its own, and every MERGE words it adds what it has changed to the shared matrix and reads what the others have added.
Hogwild loses some of such changes; this loses none but those of two merges at the same moment.

That none is lost has a price, as on a GPU. Between two merges a hot row comes near its best place in every thread; if each adds
the whole way, P threads overshoot P-fold, and with eight of them training diverges. So a row that all threads together are
expected to change more than TOGETHER times between two merges is changed by less in that ratio (`ease`).

One thread alone works on the matrices themselves, so none of this is in its results.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from firth.vectors.kernels import Floats
from firth.vectors.kernels.compiling import compiled

if TYPE_CHECKING:
    from firth.vectors.config import VectorsConfig

MERGE = 256  # words between two merges, of those that subsampling has left
NUMBERS = 1 << 13  # of the hottest rows of a matrix: merging them takes time, and with four times as many threads were slower
TOGETHER = 32  # steps that may be taken from the same place, each a whole one
SHARE = 40  # all threads' copies together are at most a fortieth of the matrices … twice: the copy, and the copy before


class Hot(NamedTuple):
    """Rows first … last − 1 of a matrix, number after number: as all see them, one's own, and one's own at the last merge."""

    shared: Floats
    own: Floats
    before: Floats
    ease: Floats  # a number for each row


def hot_rows(config: VectorsConfig, V: int) -> int:
    """How many of the V rows are hot."""
    return min(NUMBERS // config.dim, V // (SHARE * config.workers)) if config.workers > 1 else 0


def eases(busy: npt.NDArray[np.float64], threads: int) -> Floats:
    """For rows that a step changes so many times, on average."""
    return (TOGETHER / np.maximum(threads * MERGE * busy, TOGETHER)).astype(np.float32)


def copies(matrix_Vd: Floats, first: int, ease: Floats) -> Hot:
    shared = matrix_Vd[first : first + len(ease)].reshape(-1)  # a view: the rows lie side by side
    return Hot(shared, shared.copy(), shared.copy(), ease)


@compiled
def merge(shared, own, before, ease, d):
    """shared ← shared + ease · (own − before), and own and before ← shared."""
    for row in range(len(ease)):
        part = ease[row]
        for n in range(row * d, (row + 1) * d):
            now = shared[n] + part * (own[n] - before[n])
            shared[n] = now
            own[n] = now
            before[n] = now
