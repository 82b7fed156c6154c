"""Encoded sentences with a tag for each word, and batches of them.

Letters: N sentences, B rows of a batch, T pieces and W words of its longest sentence, K symbols of its longest spelling. The
sentences are held in memory.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.text.batches.buckets import Bucketed, Sweepable, by_length
from firth.text.batches.padding import PADDING, Ints, padded_rows, starts_of
from firth.text.batches.permutation import keys
from firth.text.tokenizers.special_tokens import Ids

BEGIN, END, FIRST_BYTE = 1, 2, 3  # symbols of a spelling: 0 is padding, then both ends of a word, then the 256 bytes
SYMBOLS = FIRST_BYTE + 256
_LONGEST = 32  # bytes of a spelling: half of them from the beginning of the word, half from its end
_UNKNOWN = 2  # the purpose of the keys


@dataclass(frozen=True, slots=True)
class TaggedBatch:
    token_BT: Ints  # padded with 0; the model reads the first `length_B` of each row
    length_B: Ints
    first_BW: Ints  # the position of the first piece of each word; padded with 0
    symbol_BWK: Ints  # the spelling of each word, padded with 0; K is 0 if the model does not use it
    label_BW: Ints  # padded with −1, where no loss is counted
    fresh: bool = True

    @property
    def tokens(self) -> int:
        """Without padding."""
        return int(self.length_B.sum())


@dataclass(frozen=True)
class Sentences(Sweepable[TaggedBatch]):
    """Encoded sentences, concatenated; a sentence has words, a word has pieces and a spelling. `length_N` is in pieces."""

    ids: Ids
    starts: Ints  # where the pieces of each sentence begin, and where those of the last one end: N + 1 numbers
    word_starts: Ints  # the same for its words: N + 1 numbers
    first: Ints  # for each word, the position of its first piece in the sentence
    label: Ints  # for each word, the number of its tag, or −1 if it has none
    symbols: NDArray[np.int16]  # the spellings of all words
    symbol_starts: Ints

    @classmethod
    def of(cls, encoded: Sequence[tuple[Ids, Ints, Ints]], words: Sequence[Sequence[str]]) -> Sentences:
        """From the pieces, the positions of first pieces and the labels of each sentence, and its words."""
        known = {word: spelling(word) for word in dict.fromkeys(word for sentence in words for word in sentence)}
        spellings = [known[word] for sentence in words for word in sentence]
        ids, first, label = (np.concatenate(parts) for parts in zip(*encoded, strict=True))
        return cls(
            ids,
            starts_of(len(pieces) for pieces, _, _ in encoded),
            starts_of(len(sentence) for sentence in words),
            first,
            label,
            np.concatenate(spellings),
            starts_of(map(len, spellings)),
        )

    @property
    def words(self) -> int:
        return len(self.first)

    @property
    def once(self) -> NDArray[np.bool_]:
        """For each token of the vocabulary, up to the highest that occurs: does it occur once?"""
        once_V: NDArray[np.bool_] = np.bincount(self.ids) == 1
        return once_V

    def batch(self, row_B: Ints, *, spelled: bool = False) -> TaggedBatch:
        token_BT, length_B = padded_rows(self.ids, self.starts, row_B)
        first_BW, _ = padded_rows(self.first, self.word_starts, row_B)
        label_BW, count_B = padded_rows(self.label, self.word_starts, row_B, PADDING)
        symbol_BWK = np.zeros((*first_BW.shape, 0), np.int64)
        if spelled:
            there_BW = np.arange(first_BW.shape[1]) < count_B[:, None]
            word_M = (self.word_starts[row_B][:, None] + np.arange(first_BW.shape[1]))[there_BW]
            symbol_MK, _ = padded_rows(self.symbols, self.symbol_starts, word_M)
            symbol_BWK = np.zeros((*first_BW.shape, symbol_MK.shape[1]), np.int64)
            symbol_BWK[there_BW] = symbol_MK
        return TaggedBatch(token_BT, length_B, first_BW, symbol_BWK, label_BW)

    def sweep(self, batch: int, *, spelled: bool = False) -> Iterator[tuple[Ints, TaggedBatch]]:
        """All sentences once, grouped by similar length: each batch, and the sentences that are its rows."""
        for row_B in by_length(self.length_N, batch):
            yield row_B, self.batch(row_B, spelled=spelled)

    def tags(self, row: int) -> Ints:
        """The numbers of the tags of a sentence."""
        return self.label[self.word_starts[row] : self.word_starts[row + 1]]


class BucketedSentences(Bucketed[TaggedBatch]):
    """Each batch is a function of (seed, position) alone.

    A share `hidden` of the pieces is replaced by `unknown`, so that the model learns from known words how to tag unknown ones.
    With `rare`, only pieces that occur once in these sentences are."""

    def __init__(
        self,
        sentences: Sentences,
        batch: int,
        seed: int,
        *,
        spelled: bool,
        hidden: float = 0.0,
        unknown: int | None = None,
        rare: bool = False,
    ) -> None:
        super().__init__(functools.partial(sentences.batch, spelled=spelled), sentences.length_N, batch, seed)
        self._seed, self._hidden, self._unknown = seed, hidden, unknown
        self._once_V = sentences.once if rare else None

    def next(self) -> TaggedBatch:
        place, batch = self.position << 32, super().next()
        if self._hidden and self._unknown is not None:
            number = np.arange(batch.token_BT.size, dtype=np.uint64) + np.uint64(place)
            drawn_BT = keys(self._seed, number, _UNKNOWN).reshape(batch.token_BT.shape)
            hidden_BT = drawn_BT < np.uint64(int(self._hidden * 2**64))
            if self._once_V is not None:
                hidden_BT &= self._once_V[batch.token_BT]
            batch.token_BT[hidden_BT] = self._unknown
        return batch


def spelling(word: str) -> NDArray[np.int16]:
    """The UTF-8 bytes of a word between marks for its two ends; the middle of a very long word is left out."""
    raw = word.encode("utf-8", "surrogatepass")
    if len(raw) > _LONGEST:
        raw = raw[: _LONGEST // 2] + raw[-_LONGEST // 2 :]
    return np.array([BEGIN, *(FIRST_BYTE + byte for byte in raw), END], np.int16)
