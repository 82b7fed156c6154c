"""Span corruption (Raffel et al. 2020, §3.1.4): short spans are cut out of a text, and the model generates them.

    the window     Thank you for inviting me to your party last week .
    the source     Thank you <X> me to your party <Y> week .
    the target     <X> for inviting <Y> last <Z>

From a window of T tokens, N = round(share · T) are cut out, in K = round(N / length) spans. These numbers are fixed, so that all
batches have one shape. The lengths of the spans, and of the stretches between them, are uniformly random compositions of N, and
of T − N, into K parts; a window begins with a stretch and ends with a span. The last sentinel, here <Z>, ends the target and
starts the decoder's input, like <eos> elsewhere.

Sentinels are not text: their ids follow those of the tokenizer, vocab + 0 … K − 1 in the order of the spans, and the last one is
vocab + K, with the K of whole windows. The cuts are a hash of (seed, number of the window, position in it), and windows are
numbered through all epochs. Letters: B rows, T tokens, N of them cut out, K spans, S source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError
from firth.text.batches.masking import numbers
from firth.text.batches.pairs import PairBatch
from firth.text.batches.permutation import keys
from firth.text.batches.windows import TransformedWindows, transformed_sweep
from firth.text.tokenizers.special_tokens import Ids

_SPANS, _STRETCHES = 2, 3  # the purposes of keys; 0 and 1 are those of the windows
SHORTEST = 2  # tokens: one to corrupt, one to keep

Ints = NDArray[np.int64]
UInts = NDArray[np.uint64]


def span_counts(tokens: int, share: float, length: float) -> tuple[int, int]:
    """N and K for a window of `tokens`: at least one token is cut out and one stays, in each part."""
    cut = min(max(1, round(share * tokens)), tokens - 1)
    return cut, min(max(1, round(cut / length)), cut, tokens - cut)


@dataclass(frozen=True)
class Corruption:
    vocab: int  # of the tokenizer: the first sentinel
    context: int  # of whole windows
    share: float = 0.15
    length: float = 3.0  # mean, of a span
    seed: int = 0

    @property
    def sentinels(self) -> int:
        """The number of sentinels, including the last one: extra rows of the embedding."""
        return span_counts(self.context, self.share, self.length)[1] + 1

    @property
    def end(self) -> int:
        return self.vocab + self.sentinels - 1

    def __call__(self, token_BT: Ints, window_B: UInts) -> PairBatch:
        """The windows `token_BT`, whose numbers are `window_B`, with spans cut out."""
        B, T = token_BT.shape
        cut, spans = span_counts(T, self.share, self.length)
        part_BP = np.empty((B, 2 * spans), np.int64)
        part_BP[:, ::2] = self._parts(T - cut, spans, window_B, _STRETCHES)
        part_BP[:, 1::2] = self._parts(cut, spans, window_B, _SPANS)
        which_BT = np.repeat(np.tile(np.arange(2 * spans), B), part_BP.ravel()).reshape(B, T)
        inside_BT = which_BT % 2 == 1
        begins_BT = inside_BT & (np.diff(which_BT, axis=1, prepend=0) > 0)
        sentinel_BT = self.vocab + which_BT // 2
        source_BS = np.where(inside_BT, sentinel_BT, token_BT)[~inside_BT | begins_BT].reshape(B, T - cut + spans)
        both_BT2 = np.stack((sentinel_BT, token_BT), axis=-1)
        written_BR = both_BT2[np.stack((begins_BT, inside_BT), axis=-1)].reshape(B, cut + spans)
        end_B1 = np.full((B, 1), self.end)
        target_BR = np.concatenate((written_BR, end_B1), axis=1)
        input_BR = np.concatenate((end_B1, written_BR), axis=1)
        return PairBatch(source_BS, np.full(B, source_BS.shape[1]), input_BR, target_BR, np.full(B, target_BR.shape[1], np.int64))

    def _parts(self, total: int, parts: int, window_B: UInts, purpose: int) -> Ints:
        """A composition of `total` into `parts` for each window: cuts at parts − 1 of the total − 1 places between two."""
        place_BJ = numbers(window_B, self.context, total - 1)
        score_BJ = keys(self.seed, place_BJ.ravel(), purpose).reshape(place_BJ.shape)
        cut_BJ = np.sort(np.argsort(score_BJ, axis=1, kind="stable")[:, : parts - 1], axis=1) + 1
        return np.diff(cut_BJ, axis=1, prepend=0, append=total)


def restore(source: Sequence[int], target: Sequence[int], vocab: int) -> list[int]:
    """The original window: each sentinel of the source is replaced by the span that follows it in the target."""
    spans: dict[int, list[int]] = {}
    last = vocab - 1  # the most recent sentinel
    for token in target:
        if token >= vocab:
            last = token
        spans.setdefault(last, []).extend([token] if token < vocab else [])
    return [token for piece in source for token in (spans[piece] if piece >= vocab else [piece])]


class Corrupting(Protocol):
    """Corrupts windows of `context` tokens: by cutting out spans, or as in denoising.py."""

    @property
    def context(self) -> int: ...
    @property
    def seed(self) -> int: ...
    def __call__(self, token_BT: Ints, window_B: UInts, /) -> PairBatch: ...


class CorruptedWindows(TransformedWindows[PairBatch]):
    """Windows of running text in shuffled order, corrupted."""

    def __init__(self, ids: Ids, batch: int, corruption: Corrupting) -> None:
        super().__init__(ids, batch, corruption.context, corruption.seed, corruption)


def corrupted_sweep(ids: Ids, batch: int, corruption: Corrupting) -> Iterator[PairBatch]:
    """All windows of the text once, corrupted."""
    if len(ids) < SHORTEST:
        raise DataError(f"the text has {len(ids)} tokens; corrupting it needs at least {SHORTEST}")
    return transformed_sweep(ids, batch, corruption.context, corruption, SHORTEST)
