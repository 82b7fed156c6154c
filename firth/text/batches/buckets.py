"""Batches of texts of similar length, to keep padding small. Letters: N texts, B rows of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError
from firth.text.batches import Seekable
from firth.text.batches.permutation import keys, permuted

Ints = NDArray[np.int64]

Batch = TypeVar("Batch")
_DRAW, _ORDER = 0, 1  # the purposes of an epoch's keys


class Buckets:
    """Batches of exactly `batch` texts, in random order; each is a function of (seed, position) alone.

    Each epoch shuffles the texts, sorts them by length (a stable sort), cuts them into batches and shuffles the batches. The
    N mod B texts that do not fill a batch are left out, different ones in each epoch. Fewer texts than a batch are repeated,
    all equally often, give or take one.
    """

    def __init__(self, length_N: Ints, batch: int, seed: int) -> None:
        self._length_N, self._batch, self._seed = length_N, batch, seed
        self.per_epoch = max(1, len(length_N) // batch)
        self._epoch = -1  # the epoch of `_sorted`
        self._sorted = np.zeros(0, np.int64)

    def rows(self, position: int) -> Ints:
        """The texts of the batch at `position`."""
        epoch, index = divmod(position, self.per_epoch)
        if epoch != self._epoch:
            drawn = self._drawn(epoch)
            self._epoch, self._sorted = epoch, drawn[np.argsort(self._length_N[drawn], kind="stable")]
        key = keys(self._seed, np.array([epoch], np.uint64), _ORDER)
        first = int(permuted(np.array([index], np.uint64), self.per_epoch, key)[0]) * self._batch
        return self._sorted[first : first + self._batch]

    def _drawn(self, epoch: int) -> Ints:
        """The texts of an epoch, shuffled; if they are fewer than a batch, several shuffles in a row."""
        count = self.per_epoch * self._batch
        if count <= len(self._length_N):
            shuffle, index = np.full(count, epoch, np.uint64), np.arange(count, dtype=np.uint64)
        else:
            place = np.arange(epoch * count, (epoch + 1) * count, dtype=np.uint64)
            shuffle, index = np.divmod(place, np.uint64(len(self._length_N)))
        return permuted(index, len(self._length_N), keys(self._seed, shuffle, _DRAW)).astype(np.int64)


class Bucketed(Seekable, Generic[Batch]):
    """Batches of `batch` texts of similar length (see Buckets); `make` builds a batch from its rows."""

    def __init__(self, make: Callable[[Ints], Batch], length_N: Ints, batch: int, seed: int) -> None:
        self._make, self._buckets = make, Buckets(length_N, batch, seed)

    def next(self) -> Batch:
        batch = self._make(self._buckets.rows(self.position))
        self.position += 1
        return batch


class Sweepable(ABC, Generic[Batch]):
    """Concatenated texts, from which batches are made of their rows: text n begins at starts[n] and ends at starts[n + 1]."""

    noun: ClassVar[str] = "texts"
    starts: Ints  # N + 1 numbers

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def length_N(self) -> Ints:
        return np.diff(self.starts)

    @abstractmethod
    def batch(self, row_B: Ints) -> Batch: ...

    def bucketed(self, batch: int, seed: int) -> Bucketed[Batch]:
        """For training: batches of similar length, in random order."""
        if not len(self):
            raise DataError(f"there are no {self.noun} to train on")
        return Bucketed(self.batch, self.length_N, batch, seed)

    def sweep(self, batch: int) -> Iterator[tuple[Ints, Batch]]:
        """All texts once, grouped by similar length: each batch, and the texts that are its rows."""
        for row_B in by_length(self.length_N, batch):
            yield row_B, self.batch(row_B)


def by_length(length_N: Ints, batch: int) -> list[Ints]:
    """All texts once in batches, the longest first, so that running out of memory shows at once."""
    order = np.argsort(-length_N, kind="stable")
    return [order[first : first + batch] for first in range(0, len(order), batch)]
