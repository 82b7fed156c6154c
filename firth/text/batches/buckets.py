"""Which texts share a batch: those of similar length, so that little of it is padding. Letters: N texts, B rows of a batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from firth.text.batches.permutation import keys, permuted

Ints = NDArray[np.int64]

_DRAW, _ORDER = 0, 1  # what an epoch's keys are for


class Buckets:
    """Batches of exactly `batch` texts, in random order; each is a function of (seed, position) alone.

    In each epoch the texts are shuffled, sorted by length (equally long ones stay shuffled) and cut into batches, which then
    come in an order of their own. The N mod B texts that fill no batch rest, other ones in each epoch. Fewer texts than a batch
    are drawn again, each as often as any other, give or take one.
    """

    def __init__(self, length_N: Ints, batch: int, seed: int) -> None:
        self._length_N, self._batch, self._seed = length_N, batch, seed
        self.per_epoch = max(1, len(length_N) // batch)
        self._epoch = -1  # whose batches are kept
        self._sorted = np.zeros(0, np.int64)

    def rows(self, position: int) -> Ints:
        """Which texts are the batch at `position`."""
        epoch, index = divmod(position, self.per_epoch)
        if epoch != self._epoch:
            drawn = self._drawn(epoch)
            self._epoch, self._sorted = epoch, drawn[np.argsort(self._length_N[drawn], kind="stable")]
        key = keys(self._seed, np.array([epoch], np.uint64), _ORDER)
        first = int(permuted(np.array([index], np.uint64), self.per_epoch, key)[0]) * self._batch
        return self._sorted[first : first + self._batch]

    def _drawn(self, epoch: int) -> Ints:
        """The texts of an epoch, shuffled; where they are fewer than a batch, several shuffles one after the other."""
        count = self.per_epoch * self._batch
        if count <= len(self._length_N):
            shuffle, index = np.full(count, epoch, np.uint64), np.arange(count, dtype=np.uint64)
        else:
            place = np.arange(epoch * count, (epoch + 1) * count, dtype=np.uint64)
            shuffle, index = np.divmod(place, np.uint64(len(self._length_N)))
        return permuted(index, len(self._length_N), keys(self._seed, shuffle, _DRAW)).astype(np.int64)


def by_length(length_N: Ints, batch: int) -> list[Ints]:
    """All texts once, the longest first (what does not fit into memory says so at once), `batch` of them together."""
    order = np.argsort(-length_N, kind="stable")
    return [order[first : first + batch] for first in range(0, len(order), batch)]
