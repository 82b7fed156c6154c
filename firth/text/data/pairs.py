"""Encoded sentence pairs, and batches of them that are counted in tokens and padded little.

Letters: N pairs, B rows of a batch, S source tokens and T target tokens of its longest. The pairs are held in memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError
from firth.text.batches.permutation import keys, permuted
from firth.text.tokenizers.special_tokens import Ids

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

PADDING = -1  # the target where there is none: no loss is counted there
_SOURCE, _TARGET, _STRIPE, _ORDER = range(4)  # what an epoch's keys are for
_JITTER = 1.0  # tokens: lengths this far apart change places from epoch to epoch
_WIDTH = 2.0  # target tokens of a stripe


@dataclass(frozen=True, slots=True)
class PairBatch:
    """What the decoder reads is what it is to say, one step late: <eos>, then all tokens but the last, which is <eos> again."""

    source_BS: NDArray[np.int64]  # ends with <eos>; padded with 0
    source_length_B: NDArray[np.int64]
    input_BT: NDArray[np.int64]  # begins with <eos>; padded with 0
    target_BT: NDArray[np.int64]  # ends with <eos>; padded with −1
    target_length_B: NDArray[np.int64]
    fresh: bool = True

    @property
    def tokens(self) -> int:
        """Those that are predicted, <eos> among them; padding is not."""
        return int(self.target_length_B.sum())


@dataclass(frozen=True)
class Pairs:
    """The sentences of both sides, one after the other, each with its <eos> at the end."""

    source_ids: Ids
    source_starts: Ints  # where each sentence begins, and where the last one ends: N + 1 numbers
    target_ids: Ids
    target_starts: Ints
    texts: tuple[tuple[str, str], ...] | None = None  # both sides as they were read, to compare with; not kept for training

    @classmethod
    def of(cls, sources: Sequence[Ids], targets: Sequence[Ids], texts: Iterable[tuple[str, str]] | None = None) -> Pairs:
        """From the ids of each sentence, <eos> included."""
        if len(sources) != len(targets):
            raise DataError(f"{len(sources):,} source and {len(targets):,} target sentences; expected as many of each")
        return cls(*_flat(sources), *_flat(targets), None if texts is None else tuple(texts))

    def __len__(self) -> int:
        return len(self.source_starts) - 1

    @property
    def source_length_N(self) -> Ints:
        return np.diff(self.source_starts)

    @property
    def target_length_N(self) -> Ints:
        return np.diff(self.target_starts)

    @property
    def tokens(self) -> int:
        """Of the target side, <eos> included: those that are predicted in an epoch."""
        return len(self.target_ids)

    def batch(self, row_B: Ints) -> PairBatch:
        source_BS, source_length_B = _rows(self.source_ids, self.source_starts, row_B, padding=0)
        target_BT, target_length_B = _rows(self.target_ids, self.target_starts, row_B, padding=PADDING)
        last_B = self.target_ids[self.target_starts[row_B + 1] - 1].astype(np.int64)  # each sentence's <eos>
        late_BT = np.concatenate((last_B[:, None], target_BT[:, :-1]), axis=1)
        input_BT = np.where(target_BT == PADDING, 0, late_BT)
        return PairBatch(source_BS, source_length_B, input_BT, target_BT, target_length_B)

    def sweep(self, tokens: int) -> Iterator[tuple[Ints, PairBatch]]:
        """Once over all pairs, those of similar length together: each batch, and which pairs its rows are.

        A batch has at most `tokens` cells on either side, padding included; a pair that is longer is a batch of its own.
        """
        source_N, target_N = self.source_length_N, self.target_length_N
        order = similar(source_N.astype(np.float64), target_N.astype(np.float64))
        for row_B in packed(order, np.maximum(source_N, target_N), tokens):
            yield row_B, self.batch(row_B)


class BucketedPairs:
    """Batches of at most `tokens` cells on either side, of pairs of similar length, in random order.

    The pairs are sorted anew in each epoch, by lengths to which less than a token was added at random: who shares a batch
    with whom changes, but little is padding. A pair longer than `tokens` is a batch of its own. Batches do not span epochs,
    and epochs differ by a few batches, so to find a position far ahead the epochs before it are sorted and counted once.
    """

    def __init__(self, pairs: Pairs, tokens: int, seed: int) -> None:
        if not len(pairs):
            raise DataError("there are no sentence pairs to train on")
        if tokens < 1:
            raise DataError(f"batches of {tokens} tokens; expected at least 1")
        self.position = 0
        self._pairs, self._tokens, self._seed = pairs, tokens, seed
        self._source_N, self._target_N = pairs.source_length_N, pairs.target_length_N
        self._firsts = [0]  # the position of the first batch of each epoch counted so far, and of the one after
        self._epoch: tuple[int, list[Ints]] = (-1, [])  # the one that batches are taken from, and its batches by length

    @property
    def per_epoch(self) -> int:
        """Batches of the first epoch; the others differ by a few."""
        self._find(0)
        return self._firsts[1]

    def seek(self, position: int) -> None:
        self.position = position

    def next(self) -> PairBatch:
        epoch, index = self._find(self.position)
        if self._epoch[0] != epoch:
            self._epoch = epoch, self._batches(epoch)
        batches = self._epoch[1]
        key = keys(self._seed, np.array([epoch], np.uint64), _ORDER)
        place = permuted(np.array([index], np.uint64), len(batches), key)
        self.position += 1
        return self._pairs.batch(batches[int(place[0])])

    def _find(self, position: int) -> tuple[int, int]:
        """The epoch of a position, and which of its batches it is."""
        while position >= self._firsts[-1]:
            epoch = len(self._firsts) - 1
            self._epoch = epoch, self._batches(epoch)
            self._firsts.append(self._firsts[-1] + len(self._epoch[1]))
        epoch = bisect_right(self._firsts, position) - 1
        return epoch, position - self._firsts[epoch]

    def _batches(self, epoch: int) -> list[Ints]:
        source_N = self._source_N + _JITTER * self._uniform(epoch, _SOURCE, len(self._pairs))
        target_N = self._target_N + _JITTER * self._uniform(epoch, _TARGET, len(self._pairs))
        order = similar(source_N, target_N, offset=_WIDTH * float(self._uniform(epoch, _STRIPE, 1)[0]))
        return list(packed(order, np.maximum(self._source_N, self._target_N), self._tokens))

    def _uniform(self, epoch: int, purpose: int, count: int) -> Floats:
        """Numbers from 0 up to 1, each a hash of (seed, epoch, purpose, its place)."""
        bits = keys(self._seed, np.arange(epoch * count, (epoch + 1) * count, dtype=np.uint64), purpose)
        return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53  # the 53 bits that a float64 holds


def similar(source_N: Floats, target_N: Floats, offset: float = 0.0) -> Ints:
    """An order in which neighbours have similar lengths on both sides.

    Stripes of about the same target length; in each, by source length: upwards in one, downwards in the next, so that
    there is no jump from the longest to the shortest between two stripes.
    """
    stripe_N = np.floor((target_N + offset) / _WIDTH)
    return np.lexsort((np.where(stripe_N % 2 == 0, source_N, -source_N), stripe_N))


def packed(order: Ints, length_N: Ints, tokens: int) -> Iterator[Ints]:
    """`order` cut into the longest runs with rows × longest ≤ tokens."""
    first = 0
    while first < len(order):
        most = max(1, tokens // max(1, int(length_N[order[first]])))
        ahead = length_N[order[first : first + most]]
        cells = np.maximum.accumulate(ahead) * np.arange(1, len(ahead) + 1)
        count = max(1, int((cells <= tokens).sum()))
        yield order[first : first + count]
        first += count


def _flat(sentences: Sequence[Ids]) -> tuple[Ids, Ints]:
    starts = np.concatenate(([0], np.cumsum([len(ids) for ids in sentences], dtype=np.int64)))
    ids: NDArray[np.integer[Any]] = np.concatenate(sentences) if sentences else np.zeros(0, np.uint16)
    return ids, starts


def _rows(ids: Ids, starts: Ints, row_B: Ints, padding: int) -> tuple[Ints, Ints]:
    """The sentences `row_B` side by side, as long as the longest, and their lengths."""
    start_B, length_B = starts[row_B], starts[row_B + 1] - starts[row_B]
    place_T = np.arange(int(length_B.max(initial=0)))
    inside_BT = place_T < length_B[:, None]
    token_BT = ids[np.where(inside_BT, start_B[:, None] + place_T, 0)].astype(np.int64)
    return np.where(inside_BT, token_BT, padding), length_B
