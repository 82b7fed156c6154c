"""The skip-gram pairs of a text, (centre, context).

    pairs = { (w_t, w_{t+j}) : 0 < |j| ≤ m, t + j in the same sentence }

Training draws a window from 1 … m for each word, so it uses each pair at distance |j| with probability 1 − (|j| − 1)/m. Here the
window is always m. Subsampling and the minimum count are left out, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from firth.errors import ConfigError
from firth.text.readers.corpus import Corpus
from firth.text.readers.reader import Format
from firth.vectors.encoding import LONGEST, without_punctuation
from firth.vectors.sentences import Source, lines, opened


def pairs(
    source: Source,
    *,
    window: int = 5,
    lower: bool = False,
    strip_punctuation: bool = False,
    format: Format = "auto",
    field: str = "text",
) -> Iterator[tuple[str, str]]:
    """Each word with each word at most `window` positions away, in text order.

    `source`: a path or sentences, as for `firth.vectors.train`."""
    if window < 1:
        raise ConfigError(f"window is {window}; expected at least 1")
    return _pairs(source, window, lower, strip_punctuation, format, field)


def _pairs(
    source: Source, window: int, lower: bool, strip_punctuation: bool, format: Format, field: str
) -> Iterator[tuple[str, str]]:
    with opened(source, format, field) as corpus:
        for words in _sentences(corpus, lower, strip_punctuation):
            for place, centre in enumerate(words):
                for context in (*words[max(place - window, 0) : place], *words[place + 1 : place + window + 1]):
                    yield centre, context


def _sentences(corpus: Corpus, lower: bool, strip_punctuation: bool) -> Iterator[list[str]]:
    """Lists of words; a sentence of more than LONGEST words is split, as in training."""
    sentence: list[str] = []
    for words, ends in lines(corpus, lower):
        sentence += without_punctuation(" ".join(words)).split() if strip_punctuation else words
        while len(sentence) > LONGEST:
            yield sentence[:LONGEST]
            del sentence[:LONGEST]
        if ends:
            yield sentence
            sentence = []
