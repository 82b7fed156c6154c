"""Phrases (Mikolov et al. 2013, eq. 6): join two words that occur together more often than chance, as in "new_york".

    score(a, b) = (count(ab) − δ) / (count(a) · count(b)) · N

N is the number of words in the text. It makes the score independent of the text length, as in the original tool: how many
times more often than chance the pair occurs. The discount δ excludes pairs of rare words. Pairs above the threshold are joined
from left to right; a word belongs to at most one pair, so "new york times" needs a second pass.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError
from firth.files import TEMPORARY, replacing
from firth.progress import Progress, silent
from firth.text import cache
from firth.text.readers.corpus import Corpus
from firth.text.readers.reader import Format
from firth.vectors.encoding import EncodedCorpus, encoded, without_punctuation
from firth.vectors.sentences import Source, lines, opened

_AT_ONCE = 1 << 22  # words scanned at a time
_PAIRS_HELD = 1 << 26  # pairs sorted in memory; a longer text is read several times, for different first words each time


@dataclass(frozen=True)
class Phrases:
    """The pairs to join with their scores, best first."""

    scores: dict[tuple[str, str], float]
    joiner: str = "_"
    _seconds: dict[str, set[str]] = dataclasses.field(init=False, repr=False, compare=False)  # second words by first word

    def __post_init__(self) -> None:
        seconds: dict[str, set[str]] = {}
        for first, second in self.scores:
            seconds.setdefault(first, set()).add(second)
        object.__setattr__(self, "_seconds", seconds)

    def join(self, sentence: Iterable[str]) -> list[str]:
        """in new york → in new_york"""
        joined, pending = self._join(sentence, None)
        return joined if pending is None else [*joined, pending]

    def _join(self, words: Iterable[str], pending: str | None) -> tuple[list[str], str | None]:
        """The joined words, and the last word if the next one may still join it."""
        joined: list[str] = []
        seconds = self._seconds
        for word in words:
            if pending is None:
                pending = word
            elif pending in seconds and word in seconds[pending]:
                joined.append(pending + self.joiner + word)
                pending = None
            else:
                joined.append(pending)
                pending = word
        return joined, pending


def find_phrases(
    source: Source,
    *,
    discount: int = 5,
    threshold: float = 100.0,
    joiner: str = "_",
    lower: bool = False,
    strip_punctuation: bool = False,
    format: Format = "auto",
    field: str = "text",
    progress: Progress = silent,
) -> Phrases:
    """The pairs of `source` whose score is above `threshold`."""
    _check(discount, threshold, joiner)
    text = encoded(source, lower=lower, strip_punctuation=strip_punctuation, format=format, field=field, progress=progress)
    words = text.vocabulary.words
    scored: list[tuple[float, int, int]] = []
    for a_P, b_P, score_P in _scored(text, discount):
        above = np.flatnonzero(score_P > threshold)
        scored += zip(score_P[above].tolist(), a_P[above].tolist(), b_P[above].tolist(), strict=True)
    scored.sort(key=lambda pair: (-pair[0], pair[1], pair[2]))
    return Phrases({(words[a], words[b]): score for score, a, b in scored}, joiner)


def write_phrases(
    source: Source,
    out: Path,
    *,
    discount: int = 5,
    threshold: float = 100.0,
    passes: int = 1,
    joiner: str = "_",
    lower: bool = False,
    strip_punctuation: bool = False,
    format: Format = "auto",
    field: str = "text",
    progress: Progress = silent,
) -> list[Phrases]:
    """Write the text line by line with its phrases joined and single spaces between words. Returns the phrases of each pass."""
    _check(discount, threshold, joiner)
    if passes < 1:
        raise ConfigError(f"passes is {passes}; expected at least 1")
    levels: list[Phrases] = []
    with opened(source, format, field, progress) as corpus, contextlib.ExitStack() as left_over:
        now = corpus
        for number in range(passes):
            phrases = find_phrases(
                now,
                discount=discount,
                threshold=threshold,
                joiner=joiner,
                lower=lower,
                strip_punctuation=strip_punctuation,
                progress=progress,
            )
            levels.append(phrases)
            target = out
            if number < passes - 1:
                target = cache.cache_folder() / f"{TEMPORARY}phrases-{os.getpid()}-{time.monotonic_ns()}"
                left_over.callback(target.unlink, missing_ok=True)
            with replacing(target) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
                for text in _joined(phrases, now, lower, strip_punctuation, progress):
                    file.write(text)
            now = Corpus(corpus.name, (target,), format="txt")
    return levels


def _scored(text: EncodedCorpus, discount: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:
    """(a, b, score) for the P pairs that occur more than `discount` times, for one share of the first words at a time.

    A pair is at most as frequent as its rarer word, so pairs with a rarer word can be skipped: the counts are exact."""
    V, count_V = len(text.vocabulary), text.vocabulary.count_V
    frequent_V = count_V > discount
    shares = -(-len(text.ids) // _PAIRS_HELD)
    for share in range(shares):
        of_share_V = frequent_V & (np.arange(V) % shares == share)
        keys = [_keys(text, start, of_share_V, frequent_V) for start in range(0, len(text.ids), _AT_ONCE)]
        key_P, count_P = np.unique(np.concatenate(keys), return_counts=True)
        above = count_P > discount
        a_P, b_P = np.divmod(key_P[above], V)
        yield a_P, b_P, (count_P[above] - discount) / count_V[a_P] / count_V[b_P] * text.raw_words


def _keys(text: EncodedCorpus, start: int, firsts_V: NDArray[np.bool_], seconds_V: NDArray[np.bool_]) -> NDArray[np.int64]:
    """a·V + b for each word a from `start` on and the word b after it in the same sentence."""
    ids = text.ids[start : start + _AT_ONCE + 1].astype(np.int64)
    a, b = ids[:-1], ids[1:]
    kept = firsts_V[a] & seconds_V[b]
    first, last = np.searchsorted(text.ends, (start, start + len(a)), side="right")
    kept[text.ends[first:last] - start - 1] = False  # the last word of a sentence has no successor
    return np.asarray(a[kept] * len(text.vocabulary) + b[kept])


def _joined(phrases: Phrases, corpus: Corpus, lower: bool, strip_punctuation: bool, progress: Progress) -> Iterator[str]:
    """The text with its phrases joined, in chunks."""
    pending, space, size = None, "", corpus.size
    for words, ends in lines(corpus, lower, lambda done: progress("joining phrases", done, size)):
        kept = without_punctuation(" ".join(words)).split() if strip_punctuation else words
        joined, pending = phrases._join(kept, pending)
        if ends and pending is not None:
            joined, pending = [*joined, pending], None
        if joined:
            yield space + " ".join(joined)
        space = "" if ends else " " if joined else space
        if ends:
            yield "\n"


def _check(discount: int, threshold: float, joiner: str) -> None:
    if discount < 0:
        raise ConfigError(f"discount is {discount}; expected at least 0")
    if not threshold > 0:
        raise ConfigError(f"threshold is {threshold}; expected a number above 0")
    if joiner.split() != [joiner]:
        raise ConfigError(f"joiner is {joiner!r}; expected a string without white space, such as _")
