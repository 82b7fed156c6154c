"""Batches of token ids, each a pure function of (seed, position): the position in the data is one integer.

B rows, T tokens. The target is the input shifted by one. Arrays are int64 and contiguous; only one batch is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError
from firth.text.batches import Seekable
from firth.text.batches.permutation import keys, permuted
from firth.text.tokenizers.special_tokens import Ids

Made = TypeVar("Made")
Transform = Callable[[NDArray[np.int64], NDArray[np.uint64]], Made]  # of the tokens of windows and the windows' numbers
_ORDER, _OFFSET, _LENGTHS = 0, 1, 2  # the purposes of an epoch's keys
_SHORTEST = 5  # tokens of a window whose length varies
_HALVED = 0.05  # share of these windows that have half the usual length
_BEGUN = 8  # one window in this many begins with <start>
_AHEAD = 2048  # windows whose positions are computed at once; per batch this would cost more than reading the tokens


@dataclass(frozen=True, slots=True)
class TokenBatch:
    input_BT: NDArray[np.int64]
    target_BT: NDArray[np.int64]
    fresh: bool  # reset a carried state before this batch
    rate_factor: float = 1.0  # of this update: a short window has fewer terms in its mean loss, but as large a gradient

    @property
    def tokens(self) -> int:
        return self.target_BT.size


class _Shuffled(Seekable):
    """Windows of `context` tokens in shuffled order.

    Each epoch cuts the text at new places: consecutive windows from a random offset below `context`. A window that would
    exceed the end is replaced by the first window of the text in even epochs and by the last in odd ones, so that both ends
    are used. A batch may span epochs; a text with fewer windows than a batch is used repeatedly.

    The first token of every eighth window is `start`, if there is one: what follows it is learned as the beginning of a text.
    """

    def __init__(self, ids: Ids, batch: int, context: int, seed: int, start: int | None = None) -> None:
        _check(ids, context)
        self._start = start
        self._ids, self._batch, self._context, self._seed = np.asarray(ids), batch, context, seed
        self._count = (len(ids) - 1) // context
        self._ahead: tuple[int, NDArray[np.int64]] = (0, np.zeros(0, np.int64))

    @property
    def per_epoch(self) -> int:
        """Batches in an epoch, rounded up."""
        return -(-self._count // self._batch)

    def _next(self) -> TokenBatch:
        first = self.position * self._batch
        known, starts = self._ahead
        if not known <= first <= first + self._batch <= known + len(starts):
            known, starts = self._ahead = first, self._starts(first, max(self._batch, _AHEAD))
        self.position += 1
        batch = _batch(self._ids, starts[first - known :][: self._batch], self._context, fresh=True)
        if self._start is not None:
            batch.input_BT[-first % _BEGUN :: _BEGUN, 0] = self._start  # windows are numbered through all batches
        return batch

    def _starts(self, first: int, count: int) -> NDArray[np.int64]:
        """The beginnings of `count` windows, from number `first` on; windows are numbered through all epochs."""
        drawn = np.arange(first, first + count, dtype=np.uint64)
        epoch, index = np.divmod(drawn, np.uint64(self._count))
        offset = keys(self._seed, epoch, _OFFSET) % np.uint64(self._context)
        place = permuted(index, self._count, keys(self._seed, epoch, _ORDER))
        start = (offset + place * np.uint64(self._context)).astype(np.int64)
        last = len(self._ids) - 1 - self._context
        return np.where(start <= last, start, np.where(epoch % 2 == 0, 0, last))


class Windows(_Shuffled):
    """Windows in shuffled order, for models that carry no state from one window to the next."""

    def next(self) -> TokenBatch:
        return self._next()


class TransformedWindows(_Shuffled, Generic[Made]):
    """Windows in shuffled order, passed through `transform`. Windows are numbered through all epochs: a transform that draws by
    these numbers draws anew in each epoch, and a resumed run draws the same as an uninterrupted one."""

    def __init__(self, ids: Ids, batch: int, context: int, seed: int, transform: Transform[Made]) -> None:
        super().__init__(ids, batch, context, seed)
        self._transform = transform

    def next(self) -> Made:
        first = self.position * self._batch
        return self._transform(self._next().input_BT, np.arange(first, first + self._batch, dtype=np.uint64))


class Streams(Seekable):
    """`batch` contiguous streams side by side, for truncated backpropagation with carried state.

    Every epoch begins fresh, at a small random offset, and drops the tokens that do not fill a window of every stream. If the
    text is too short for that many streams of one window, the streams overlap. The first token of a fresh stream is `start`, if
    there is one.

    With a `deviation`, the lengths of windows are drawn, so that they end at other tokens in each epoch (Merity et al. 2018,
    §4.1): from a normal distribution around `context`, or for one in twenty around half of it, and at most two deviations above.
    """

    def __init__(
        self, ids: Ids, batch: int, context: int, seed: int, start: int | None = None, *, deviation: float = 0.0
    ) -> None:
        _check(ids, context)
        self._deviation = deviation
        self._known: tuple[int, int, NDArray[np.int64]] | None = None  # an epoch, its first position, and where windows begin
        self._start = start
        self._ids, self._context, self._seed = np.asarray(ids), context, seed
        predicted = len(ids) - 1
        self.per_epoch = max(1, predicted // (batch * context))
        self._length = length = self.per_epoch * context
        apart = min(length, (predicted - length) // max(1, batch - 1))
        self._origins = np.arange(batch) * apart
        self._slack = min(context - 1, predicted - length - int(self._origins[-1]))

    def next(self) -> TokenBatch:
        epoch, first, begins = self._epoch()
        window = self.position - first
        offset = self._key(epoch, _OFFSET) % (self._slack + 1)
        self.position += 1
        begin, length = int(begins[window]), int(begins[window + 1] - begins[window])
        batch = _batch(self._ids, self._origins + (offset + begin), length, fresh=window == 0, usual=self._context)
        if self._start is not None and batch.fresh:
            batch.input_BT[:, 0] = self._start
        return batch

    def _key(self, epoch: int, purpose: int) -> int:
        return int(keys(self._seed, np.array([epoch], np.uint64), purpose)[0])

    def _epoch(self) -> tuple[int, int, NDArray[np.int64]]:
        """The epoch of this position, the position of its first window, and where its windows begin, and the last ends."""
        if not self._deviation:
            epoch = self.position // self.per_epoch
            return epoch, epoch * self.per_epoch, np.arange(self.per_epoch + 1) * self._context
        known = self._known if self._known is not None and self._known[1] <= self.position else (0, 0, self._drawn(0))
        while self.position >= known[1] + len(known[2]) - 1:
            epoch = known[0] + 1
            known = epoch, known[1] + len(known[2]) - 1, self._drawn(epoch)
        self._known = known
        return known

    def _drawn(self, epoch: int) -> NDArray[np.int64]:
        """Where the windows of an epoch begin, if their lengths vary, and where the last of them ends."""
        random, shortest = np.random.default_rng(self._key(epoch, _LENGTHS)), min(_SHORTEST, self._context)
        count = self._length // shortest
        mean = np.where(random.random(count) < _HALVED, self._context / 2, self._context)
        drawn = random.normal(mean, self._deviation)
        length = drawn.clip(shortest, min(self._length, self._context + 2 * self._deviation)).astype(np.int64)
        ends = length.cumsum()
        return np.concatenate([[0], ends[ends <= self._length]])


def sweep(ids: Ids, batch: int, context: int) -> Iterator[TokenBatch]:
    """Once over the text: every token but the first is predicted exactly once, in windows that do not overlap.

    The last batch of whole windows may have fewer rows; the rest is one row of fewer tokens.
    """
    ids, predicted = _swept(ids)
    whole = predicted // context
    for first in range(0, whole, batch):
        yield _batch(ids, np.arange(first, min(first + batch, whole)) * context, context, fresh=True)
    if predicted % context:
        yield _batch(ids, np.array([whole * context]), predicted % context, fresh=True)


def transformed_sweep(ids: Ids, batch: int, context: int, transform: Transform[Made], shortest: int = 1) -> Iterator[Made]:
    """The text once, in transformed windows that do not overlap; the rest is a shorter window, if it has at least `shortest`
    tokens."""
    whole = len(ids) // context
    for first in range(0, whole, batch):
        last = min(first + batch, whole)
        token_BT = np.asarray(ids[first * context : last * context], np.int64).reshape(-1, context)
        yield transform(token_BT, np.arange(first, last, dtype=np.uint64))
    if len(ids) % context >= shortest:
        yield transform(np.asarray(ids[whole * context :], np.int64)[None], np.array([whole], np.uint64))


def sweep_streams(ids: Ids, batch: int, context: int) -> Iterator[TokenBatch]:
    """`sweep` for carried state: contiguous streams, the last window of each shorter than the rest.

    At most `batch` streams, fewer where they would be shorter than one context. The few tokens that do not divide
    among them (fewer than there are streams) come last, as one fresh row.
    """
    ids, predicted = _swept(ids)
    rows = max(1, min(batch, predicted // context))
    length = predicted // rows
    origins = np.arange(rows) * length
    yield from _along(ids, origins, length, context)
    yield from _along(ids, np.array([rows * length]), predicted % rows, context)


def _along(ids: Ids, origins: NDArray[np.int64], length: int, context: int) -> Iterator[TokenBatch]:
    for at in range(0, length, context):
        yield _batch(ids, origins + at, min(context, length - at), fresh=at == 0)


def _batch(ids: Ids, starts: NDArray[np.int64], context: int, *, fresh: bool, usual: int | None = None) -> TokenBatch:
    rows_BT = ids[starts[:, None] + np.arange(context + 1)]
    input_BT, target_BT = (part_BT.astype(np.int64, order="C") for part_BT in (rows_BT[:, :-1], rows_BT[:, 1:]))
    return TokenBatch(input_BT, target_BT, fresh, context / (usual or context))


def _check(ids: Ids, context: int) -> None:
    if len(ids) < context + 1:
        raise DataError(
            f"the training text has {len(ids):,} tokens, but training.context = {context} needs at least {context + 1:,}. "
            "Use a smaller training.context or more text."
        )


def _swept(ids: Ids) -> tuple[Ids, int]:
    if len(ids) < 2:
        raise DataError(f"the text to evaluate has {len(ids)} tokens; expected at least 2, one to predict the other")
    return np.asarray(ids), len(ids) - 1
