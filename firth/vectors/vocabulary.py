"""The vocabulary: the words that get a vector, most frequent first, and how they are selected from a text."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError
from firth.text.lexicon import MISSING, CountedWords, Lexicon, lexicon_of
from firth.text.threads import cores, in_order


class Vocabulary:
    """Words by descending count, ties in alphabetical order; word i occurred count_V[i] times."""

    def __init__(self, words: Sequence[str], count_V: NDArray[np.int64]) -> None:
        if len(words) != len(count_V):
            raise DataError(f"{len(words):,} words but {len(count_V):,} counts; expected one count per word")
        self._packed = b""
        self.words = list(words)
        self.count_V = np.ascontiguousarray(count_V, np.int64)

    @classmethod
    def packed(cls, text: bytes, count_V: NDArray[np.int64]) -> Vocabulary:
        """From words joined by newlines, which are split on first use: as strings they take eight times as much memory."""
        vocabulary = cls([], np.empty(0, np.int64))
        del vocabulary.words
        vocabulary._packed, vocabulary.count_V = text, np.ascontiguousarray(count_V, np.int64)
        if (words := text.count(b"\n") + 1) != len(count_V):
            raise DataError(f"{words:,} words but {len(count_V):,} counts; expected one count per word")
        return vocabulary

    @functools.cached_property
    def words(self) -> list[str]:
        packed, self._packed = self._packed, b""
        return str(packed, "utf-8").split("\n")

    def __len__(self) -> int:
        return len(self.count_V)

    def __contains__(self, word: object) -> bool:
        return word in self._id_of

    def id(self, word: str) -> int | None:
        return self._id_of.get(word)

    @functools.cached_property
    def _id_of(self) -> dict[str, int]:
        # Lazy: training does not need it, and for a million words it takes as much memory as 25 dimensions.
        return {word: number for number, word in enumerate(self.words)}

    @classmethod
    def ranked(cls, counts: dict[str, int]) -> Vocabulary:
        words = sorted(counts)
        count_V = np.fromiter((counts[word] for word in words), np.int64, len(words))
        order = np.argsort(-count_V, kind="stable")
        return cls([words[place] for place in order.tolist()], count_V[order])


def chosen(
    parts: Sequence[CountedWords],
    min_count: int,
    max_vocab: int | None,
    base: Vocabulary | None,
    name: str,
    held: int = 1 << 22,  # words in memory at a time
) -> Vocabulary:
    """The `max_vocab` most frequent words of all `parts` that occur at least `min_count` times.

    `base` is the vocabulary of vectors to train further: all its words are kept, and counts are added up."""
    counts = dict(zip(base.words, base.count_V.tolist(), strict=True)) if base is not None else {}
    old = lexicon_of(counts)
    new: dict[str, int] = {}
    most, most_count = "", 0
    for words in _totals(parts, held):
        count_W, known_W = words.count_W, old.find(words) != MISSING
        if len(words) and count_W.max() > most_count:
            most, most_count = words.spelled(np.array([count_W.argmax()]))[0], int(count_W.max())
        new |= _spelled(words, count_W, ~known_W & (count_W >= min_count))
        for word, count in _spelled(words, count_W, known_W).items():
            counts[word] += count
    if max_vocab is not None and len(counts) + len(new) > max_vocab:
        best = Vocabulary.ranked(new).words[: max(0, max_vocab - len(counts))]
        new = {word: new[word] for word in best}
    _check(counts | new, most, most_count, min_count, name)
    return Vocabulary.ranked(counts | new)


def _spelled(words: CountedWords, count_W: NDArray[np.int64], kept_W: NDArray[np.bool_]) -> dict[str, int]:
    kept = np.flatnonzero(kept_W)
    return dict(zip(words.spelled(kept), count_W[kept].tolist(), strict=True))


def _totals(parts: Sequence[CountedWords], held: int) -> Iterator[CountedWords]:
    """Every word once with its total count. Words are merged one range of hash values at a time: each thread has one, and memory
    holds only about `held` words."""
    threads = min(cores(), len(parts))
    shares = max(threads, -(-threads * sum(map(len, parts)) // held))

    def merged(share: int) -> CountedWords:
        lexicon = Lexicon()
        for part in parts:
            lexicon.add(part, share, shares)
        return lexicon.words()

    return in_order(merged, range(shares), threads) if shares > 1 else iter(parts)


def _check(counts: dict[str, int], most: str, most_count: int, min_count: int, name: str) -> None:
    if len(counts) >= 2:
        return
    if not most:
        raise DataError(f"{name} contains no words; expected words separated by white space")
    shown = most if len(most) <= 40 else most[:40] + "…"
    if not counts:
        raise DataError(
            f'min_count {min_count} leaves no words of {name}: the most frequent, "{shown}", occurs {most_count:,} times. '
            "Use more text or a smaller min_count"
        )
    raise DataError(
        f'{name} has only one word that occurs {min_count} times, "{shown}"; training needs at least two. '
        "Use more text or a smaller min_count"
    )
