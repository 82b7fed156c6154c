"""The rows that every step needs, kept apart for each thread.

Two threads that write to the same row send its cache lines to and fro; the root of the tree, which every step of hierarchical
softmax changes, makes two threads slower than one. So where threads work side by side, each call has a copy of the hottest
rows of its own, and every MERGE words it adds what it has changed to the shared matrix and reads what the others have added.
Hogwild loses some of such changes; this loses none but those of two merges at the same moment.

One thread alone works on the matrices themselves, so none of this is in its results.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firth.vectors.kernels import Floats
from firth.vectors.kernels.compiling import compiled

if TYPE_CHECKING:
    from firth.vectors.config import VectorsConfig

MERGE = 512  # words between two merges, of those that subsampling has left
NUMBERS = 1 << 15  # of the hottest rows of a matrix: an eighth of a megabyte, which stays near
SHARE = 40  # all threads' copies together are at most a fortieth of the matrices … twice: the copy, and the copy before


class Hot(NamedTuple):
    """Rows first … last − 1 of a matrix, number after number: as all see them, one's own, and one's own at the last merge."""

    shared: Floats
    own: Floats
    before: Floats


def hot_rows(config: VectorsConfig, V: int) -> int:
    """How many of the V rows are hot."""
    return min(NUMBERS // config.dim, V // (SHARE * config.workers)) if config.workers > 1 else 0


def copies(matrix_Vd: Floats, first: int, last: int) -> Hot:
    shared = matrix_Vd[first:last].reshape(-1)  # a view: the rows lie side by side
    return Hot(shared, shared.copy(), shared.copy())


@compiled
def merge(shared, own, before):
    """shared ← shared + own − before, and own and before ← shared."""
    for n in range(len(own)):
        now = shared[n] + (own[n] - before[n])
        shared[n] = now
        own[n] = now
        before[n] = now
