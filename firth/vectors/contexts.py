"""The contexts of a word: a concordance, and its collocates, the words that occur near it more often than chance (Firth 1957).

Collocates are ranked by Dunning's log-likelihood ratio (1993). A word c fills k₁ of the n₁ positions near the word and k₂ of
the other n₂ positions. With p₁ = k₁/n₁, p₂ = k₂/n₂ and p = (k₁ + k₂)/(n₁ + n₂),

    G² = 2 Σ_i [ kᵢ ln(pᵢ/p) + (nᵢ − kᵢ) ln((1 − pᵢ)/(1 − p)) ]

Unlike pointwise mutual information, G² does not rank the rarest words first. Only words with p₁ > p₂ are collocates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError, DataError
from firth.text import markup
from firth.vectors.encoding import EncodedCorpus
from firth.vectors.similar_spellings import near_spellings
from firth.vectors.vocabulary import Vocabulary

_AT_ONCE = 1 << 22  # words scanned at a time
_NAMES: WeakKeyDictionary[Vocabulary, tuple[list[str], NDArray[np.int64]]] = WeakKeyDictionary()  # of several words' contexts
_SHOWN = 40  # words on each side of a concordance line, at most; the printer cuts it to the page width


@dataclass(frozen=True)
class ConcordanceLine:
    """One occurrence of the word, with the words to its left and right."""

    left: list[str]
    right: list[str]


@dataclass(frozen=True)
class Collocate:
    """A word that occurs near the word more often than chance."""

    word: str
    together: int  # its occurrences near the word
    score: float  # G²


@dataclass(frozen=True)
class WordContexts:
    word: str
    count: int
    lines: list[ConcordanceLine]
    collocates: list[Collocate]  # strongest first


def word_contexts(
    text: EncodedCorpus, word: str, *, window: int = 5, lines: int = 5, topn: int = 10, plain: bool = False
) -> WordContexts:
    """`lines` occurrences of the word, spread evenly over the text, and its `topn` strongest collocates. With `plain`, without
    the markup of documentation; a collocate is then counted with and without punctuation around it, and in any markup."""
    for name, value, least in (("window", window, 1), ("lines", lines, 0), ("topn", topn, 0)):
        if value < least:
            raise ConfigError(f"{name} is {value}; expected at least {least}")
    id = _id(text, word)
    place_P = _places(text, id)
    start_P, stop_P = _sentence_bounds(text, place_P)
    telling = np.flatnonzero(stop_P - start_P > 1) if plain else np.arange(len(place_P))  # a heading has no other words
    some = telling if len(telling) else np.arange(len(place_P))
    spread = some[np.linspace(0, len(some) - 1, min(lines, len(some))).astype(np.int64)]
    shown = [_line(text, int(place_P[n]), int(start_P[n]), int(stop_P[n])) for n in spread]
    near = _near(place_P, start_P, stop_P, window)
    if plain:
        shown = [ConcordanceLine(_plain(line.left), _plain(line.right)) for line in shown]
    names, name_V = _plain_names(text.vocabulary) if plain else (text.vocabulary.words, np.arange(len(text.vocabulary.words)))
    return WordContexts(word, len(place_P), shown, _collocates(text, near, topn, names, name_V))


def shared_collocates(contexts: Sequence[WordContexts]) -> set[str]:
    """The collocates that several of the words have in common."""
    sets = [{collocate.word for collocate in one.collocates} for one in contexts]
    return {word for words in sets for word in words if sum(word in other for other in sets) > 1}


def log_likelihood_ratio(k1: NDArray[np.int64], n1: int, k2: NDArray[np.int64], n2: int) -> NDArray[np.float64]:
    """G², element by element."""
    p = (k1 + k2) / (n1 + n2)
    total = np.zeros(len(p))
    for k, n in ((k1, n1), (k2, n2)):
        total += _times_log(k, n * p) + _times_log(n - k, n * (1 - p))
    return 2 * total


def _times_log(seen: NDArray[np.int64], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """x ln(x/e), with 0 ln 0 = 0."""
    ratio = np.divide(seen, expected, out=np.ones(len(expected)), where=seen > 0)
    return np.asarray(seen * np.log(ratio))


def _id(text: EncodedCorpus, word: str) -> int:
    id = text.vocabulary.id(word)
    if id is None:
        index = {other: number for number, other in enumerate(text.vocabulary.words)}
        near = [f'"{other}"' for other in near_spellings(word, text.vocabulary.words, index)]
        raise DataError(f'"{word}" does not occur in {text.name}.' + (f" Did you mean {' or '.join(near)}?" if near else ""))
    return id


def _places(text: EncodedCorpus, id: int) -> NDArray[np.int64]:
    places = [start + np.flatnonzero(text.ids[start : start + _AT_ONCE] == id) for start in range(0, len(text.ids), _AT_ONCE)]
    return np.concatenate(places)


def _sentence_bounds(text: EncodedCorpus, place_P: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    sentence_P = np.searchsorted(text.ends, place_P, side="right")
    start_P = np.where(sentence_P > 0, text.ends[sentence_P - 1], 0)
    return start_P, np.asarray(text.ends[sentence_P])


def _line(text: EncodedCorpus, place: int, start: int, stop: int) -> ConcordanceLine:
    words = text.vocabulary.words
    left = text.ids[max(start, place - _SHOWN) : place]
    right = text.ids[place + 1 : min(stop, place + 1 + _SHOWN)]
    return ConcordanceLine([words[id] for id in left], [words[id] for id in right])


def _near(place_P: NDArray[np.int64], start_P: NDArray[np.int64], stop_P: NDArray[np.int64], window: int) -> NDArray[np.int64]:
    """Every position at most `window` words from one of `place_P` in the same sentence, each only once."""
    places = []
    for offset in (*range(-window, 0), *range(1, window + 1)):
        other_P = place_P + offset
        places.append(other_P[(other_P >= start_P) & (other_P < stop_P)])
    return np.unique(np.concatenate(places))


def _plain(words: list[str]) -> list[str]:
    return markup.plain(" ".join(words)).split()


def _plain_names(vocabulary: Vocabulary) -> tuple[list[str], NDArray[np.int64]]:
    """The words without markup, and for each word of the vocabulary which of them it is. "" stands for markup alone."""
    if vocabulary not in _NAMES:
        number: dict[str, int] = {}
        name_V = [number.setdefault(markup.plain_word(word), len(number)) for word in vocabulary.words]
        _NAMES[vocabulary] = list(number), np.array(name_V, np.int64)
    return _NAMES[vocabulary]


def _collocates(
    text: EncodedCorpus, near: NDArray[np.int64], topn: int, names: Sequence[str], name_V: NDArray[np.int64]
) -> list[Collocate]:
    """Words that count as one have the same entry in `name_V`, and one name."""
    count_N = np.bincount(name_V, text.vocabulary.count_V, len(names)).astype(np.int64)
    together_N = np.bincount(name_V[text.ids[near]], minlength=len(names))
    n1, n2 = len(near), len(text.ids) - len(near)
    here = np.flatnonzero(together_N)
    k1, k2 = together_N[here], count_N[here] - together_N[here]
    score = log_likelihood_ratio(k1, n1, k2, n2)
    more = np.flatnonzero(k1 * n2 > k2 * n1)
    found = [Collocate(names[int(here[n])], int(k1[n]), float(score[n])) for n in more if names[int(here[n])]]
    return sorted(found, key=lambda one: (-one.score, one.word))[:topn]
