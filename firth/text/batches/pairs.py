"""Encoded sentence pairs, and batches of them: sized in tokens, with little padding.

Letters: N pairs, B rows of a batch, S source tokens and T target tokens of its longest. The pairs are held in memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError
from firth.text.batches import Seekable
from firth.text.batches.padding import PADDING, Ints, concatenated, padded_rows
from firth.text.batches.permutation import keys, permuted
from firth.text.conversation import QuestionFacts
from firth.text.tokenizers.special_tokens import Ids

Floats = NDArray[np.float64]

_SOURCE, _TARGET, _STRIPE, _ORDER = range(4)  # the purposes of an epoch's keys
_JITTER = 1.0  # tokens; pairs that differ by less change places from epoch to epoch
_WIDTH = 2.0  # target tokens of a stripe


@dataclass(frozen=True, slots=True)
class PairBatch:
    """The decoder's input is its target shifted by one: <eos>, then all tokens but the last, which is <eos> again. Some imported
    models begin with another token."""

    source_BS: NDArray[np.int64]  # ends with <eos>; padded with 0
    source_length_B: NDArray[np.int64]
    input_BT: NDArray[np.int64]  # begins with <eos>; padded with 0
    target_BT: NDArray[np.int64]  # ends with <eos>; padded with −1
    target_length_B: NDArray[np.int64]
    fresh: bool = True

    @property
    def tokens(self) -> int:
        """Predicted tokens: <eos> included, padding not."""
        return int(self.target_length_B.sum())

    @property
    def inputs(self) -> tuple[Ints, Ints, Ints]:
        """The arrays that the network reads."""
        return self.source_BS, self.source_length_B, self.input_BT


@dataclass(frozen=True)
class Pairs:
    """The sentences of both sides, concatenated, each with <eos> at its end."""

    source_ids: Ids
    source_starts: Ints  # where each sentence begins, and where the last one ends: N + 1 numbers
    target_ids: Ids
    target_starts: Ints
    texts: tuple[tuple[str, str], ...] | None = None  # both sides as text, for evaluation; not kept for training
    asked: tuple[QuestionFacts, ...] | None = None  # facts about each source, where it is a question of a conversation
    start: int | None = None  # the decoder's first input, if it is not <eos>

    @classmethod
    def of(
        cls,
        sources: Sequence[Ids],
        targets: Sequence[Ids],
        texts: Iterable[tuple[str, str]] | None = None,
        asked: tuple[QuestionFacts, ...] | None = None,
        start: int | None = None,
    ) -> Pairs:
        """From the ids of each sentence, <eos> included."""
        if len(sources) != len(targets):
            raise DataError(f"{len(sources):,} source and {len(targets):,} target sentences; expected equal numbers")
        return cls(*concatenated(sources), *concatenated(targets), None if texts is None else tuple(texts), asked, start)

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
        """Target tokens, <eos> included: those predicted in an epoch."""
        return len(self.target_ids)

    def batch(self, row_B: Ints) -> PairBatch:
        source_BS, source_length_B = padded_rows(self.source_ids, self.source_starts, row_B)
        return PairBatch(source_BS, source_length_B, *decoder_rows(self.target_ids, self.target_starts, row_B, self.start))

    def sweep(self, tokens: int) -> Iterator[tuple[Ints, PairBatch]]:
        """All pairs once, grouped by similar length: each batch, and the pairs that are its rows.

        A batch has at most `tokens` cells on either side, padding included; a longer pair is a batch by itself.
        """
        source_N, target_N = self.source_length_N, self.target_length_N
        order = similar(source_N.astype(np.float64), target_N.astype(np.float64))
        for row_B in packed(order, np.maximum(source_N, target_N), tokens):
            yield row_B, self.batch(row_B)


class BucketedPairs(Seekable):
    """Batches of at most `tokens` cells on either side, of pairs of similar length, in random order.

    Each epoch sorts the pairs by length plus less than one random token: batches are composed differently each time, but have
    little padding. A pair longer than `tokens` is a batch by itself. Batches do not span epochs, and epochs differ by a few
    batches, so seeking far ahead sorts and counts all epochs before that position once.
    """

    def __init__(self, pairs: Pairs, tokens: int, seed: int) -> None:
        if not len(pairs):
            raise DataError("there are no sentence pairs to train on")
        if tokens < 1:
            raise DataError(f"batches of {tokens} tokens; expected at least 1")
        self._pairs, self._tokens, self._seed = pairs, tokens, seed
        self._source_N, self._target_N = pairs.source_length_N, pairs.target_length_N
        self._firsts = [0]  # the position of the first batch of each epoch counted so far, and of the next one
        self._epoch: tuple[int, list[Ints]] = (-1, [])  # the current one, and its batches sorted by length

    @property
    def per_epoch(self) -> int:
        """Batches of the first epoch; the others differ by a few."""
        self._find(0)
        return self._firsts[1]

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
        """The epoch of a position, and the index of its batch there."""
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


def decoder_rows(ids: Ids, starts: Ints, row_B: Ints, start: int | None = None) -> tuple[Ints, Ints, Ints]:
    """input_BT, target_BT and target_length_B of some targets, each of which ends with <eos>: the input is the target shifted by
    one, with <eos> before it, or `start`."""
    target_BT, target_length_B = padded_rows(ids, starts, row_B, PADDING)
    first_B = ids[starts[row_B + 1] - 1].astype(np.int64)  # each sentence's <eos>
    if start is not None:
        first_B = np.full_like(first_B, start)
    late_BT = np.concatenate((first_B[:, None], target_BT[:, :-1]), axis=1)
    return np.where(target_BT == PADDING, 0, late_BT), target_BT, target_length_B


def similar(source_N: Floats, target_N: Floats, offset: float = 0.0) -> Ints:
    """An order in which neighbours have similar lengths on both sides.

    Stripes of about the same target length, each sorted by source length: ascending in one, descending in the next, so that
    there is no jump from the longest to the shortest between stripes.
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
