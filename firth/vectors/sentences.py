"""Open a corpus for word vectors: a file in any supported format, a named data set, standard input, or a Python iterable.

A sentence ends at a newline and at the end of a document; words are separated by white space. This rule holds for every format:
a text gives the same vectors as txt and as jsonl.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator

from firth.errors import ConfigError, DataError
from firth.files import TEMPORARY
from firth.progress import Progress, silent
from firth.text import cache
from firth.text.data.running_text import has_files
from firth.text.data_set import DATA_SETS, READABLE
from firth.text.datasets import download
from firth.text.readers.corpus import Corpus, find, spool
from firth.text.readers.file_decoding import Tick
from firth.text.readers.formats import expect_format, no_tick
from firth.text.readers.reader import Format

Sentence = str | Iterable[str]
Source = str | os.PathLike[str] | Corpus | Iterable[Sentence]  # a str is a path or name, never a text


@contextlib.contextmanager
def opened(source: Source, format: Format = "auto", field: str = "text", progress: Progress = silent) -> Iterator[Corpus]:
    """The corpus at a path, under a catalog name if there is no such file, from "-" (standard input), or from sentences.

    A source that can be read only once is copied to the cache folder while the context lasts."""
    expect_format(format)
    if isinstance(source, Corpus):
        yield source
        return
    if not isinstance(source, (str, os.PathLike)) and (format != "auto" or field != "text"):
        raise ConfigError("format and field only apply to files, not to sentences. Remove them.")
    if isinstance(source, (str, os.PathLike)):
        place = os.fspath(source)
        if place != "-":
            corpus = _located(place, format, field, progress)
            corpus.expect_columns()
            yield corpus
            return
        corpus = spool(format, field)
    else:
        corpus = _copied(source)
    try:
        corpus.expect_columns()
        yield corpus
    finally:
        corpus.files[0].unlink(missing_ok=True)


def lines(corpus: Corpus, lower: bool, tick: Tick = no_tick) -> Iterator[tuple[list[str], bool]]:
    """The words in order, and whether a line ends after them; a long line comes in several chunks."""
    held = ""  # a word that may continue in the next piece
    for piece in corpus.pieces(tick):
        text = held + (piece.text.lower() if lower else piece.text)
        *whole, rest = (text.removesuffix("\n") + "\n" if piece.ends_document else text).split("\n")
        for line in whole:
            yield line.split(), True
        words = rest.split()
        held = words.pop() if rest and not rest[-1].isspace() else ""
        yield words, False


def _located(place: str, format: Format, field: str, progress: Progress) -> Corpus:
    if not has_files(place):
        return find(place, format, field)  # a glob, or an error that names similar files
    entry = DATA_SETS[place]
    if entry.holds not in READABLE:
        files = f" Use one of its files, for example $(firth data path {place})/{entry.files[0].name}" if entry.files else ""
        raise DataError(f"{place} is not running text.{files}")
    format = "txt" if entry.train and entry.columns is None else "auto"  # "auto" reads the texts of a labelled data set
    return Corpus(place, (download.parts(entry, progress)["train"],), format=format, columns=entry.columns)


def _copied(sentences: Iterable[Sentence]) -> Corpus:
    """Write the sentences of an iterable to a text file, one per line; its name lets a later run sweep it up."""
    target = cache.cache_folder() / f"{TEMPORARY}sentences-{os.getpid()}-{time.monotonic_ns()}"
    with cache.replacing(target) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        for number, sentence in enumerate(sentences, start=1):
            file.write(_line(sentence, number) + "\n")
    return Corpus("the list of sentences", (target,), format="txt")


def _line(sentence: object, number: int) -> str:
    if isinstance(sentence, str):
        return _encodable(" ".join(sentence.split()), number)
    if not isinstance(sentence, Iterable) or isinstance(sentence, (bytes, bytearray)):
        raise DataError(f"sentence {number:,} is {sentence!r}; expected a string or a list of words")
    words = list(sentence)
    try:
        line = " ".join(words)
    except TypeError:
        line = ""
    if line.split() != words:
        wrong = next(word for word in words if not isinstance(word, str) or word.split() != [word])
        raise DataError(f"sentence {number:,} contains {wrong!r}; expected words without white space, such as 'new_york'")
    return _encodable(line, number)


def _encodable(line: str, number: int) -> str:
    try:
        line.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"sentence {number:,} contains {line[error.start]!r}, half of a surrogate pair. Remove it") from error
    return line
