"""Hot rows: each thread keeps its own copy of the few dozen rows that almost every step updates.

When two threads write to the same row, its cache lines bounce between their cores. Every step of hierarchical softmax updates
the root of the tree, so two threads would be slower than one. With several threads, each call therefore works on its own copy
of the hottest rows. Every MERGE words it adds its changes to the shared matrix and reads the changes of the other threads.
Plain Hogwild loses some of these updates; this scheme only loses those of two merges at the same moment.

Keeping the updates has a price, as on a GPU. Between two merges, a hot row approaches its optimum in every thread. If each of
P threads adds its full change, the sum overshoots P-fold, and training with eight threads diverges. So if all threads together
are expected to update a row more than TOGETHER times between two merges, its changes are scaled down by that ratio (`ease`).

A single thread works on the matrices directly, so none of this affects its results.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from firth.text.compilation import compiled
from firth.vectors.kernels.contract import Floats

if TYPE_CHECKING:
    from firth.vectors.config import VectorsConfig

MERGE = 256  # words between two merges, counted after subsampling
NUMBERS = 1 << 13  # floats in the hot rows of a matrix: merging takes time, and four times as many made threads slower
TOGETHER = 32  # full steps that may start from the same weights
SHARE = 40  # the copies of all threads are at most 1/40 of the matrices, twice: the copy, and its state at the last merge


class Hot(NamedTuple):
    """Rows first … last − 1 of a matrix, flattened: the shared rows, this thread's copy, and the copy at the last merge."""

    shared: Floats
    own: Floats
    before: Floats
    ease: Floats  # one factor for each row


def hot_row_count(config: VectorsConfig, V: int) -> int:
    """The number of hot rows among the V."""
    return min(NUMBERS // config.dim, V // (SHARE * config.workers)) if config.workers > 1 else 0


def eases(busy: npt.NDArray[np.float64], threads: int) -> Floats:
    """The factor for each row, given the expected number of updates of the row per step."""
    return (TOGETHER / np.maximum(threads * MERGE * busy, TOGETHER)).astype(np.float32)


def copies(matrix_Vd: Floats, first: int, ease: Floats) -> Hot:
    shared = matrix_Vd[first : first + len(ease)].reshape(-1)  # a view: the rows are contiguous
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
