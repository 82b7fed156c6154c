"""A corpus as word ids on disk, memory-mapped, so that you can train on more text than fits into memory.

`words-<key>.ids` holds little-endian uint32 ids, `.ends` the exclusive end of each sentence as int64, `.txt` the vocabulary and
`.counts` its counts. `.json` describes them, with their hashes, and is written last. The key is a hash of the text and of the
settings that select the vocabulary.

The text is read once. Several threads number its words in order of appearance, each with its own `Lexicon`, and these numbers
are written to disk. Once the counts are known, the numbers are replaced by ids and rare words are removed from their sentences,
as in word2vec. The result does not depend on the number of threads.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError
from firth.files import TEMPORARY
from firth.progress import Progress, silent
from firth.text import cache, sealed
from firth.text.lexicon import CountedWords, Lexicon, lexicon_of, rename
from firth.text.readers.corpus import Corpus, Scan, Scanning, known_scan
from firth.text.readers.reader import Format
from firth.text.sealed import digest, digests
from firth.text.threads import in_order
from firth.text.threads import workers as threads
from firth.vectors.sentences import Source, opened
from firth.vectors.vocabulary import Vocabulary, chosen

_FORMAT = 4
_PUNCTUATION = re.compile(r"[^\w\s'’-]+|(?<!\w)['’-]+|['’-]+(?!\w)")  # an apostrophe or hyphen within a word belongs to it
LONGEST = 10_000  # words of a sentence; a longer one is split (text8 is a single line)
_FILES = (".ids", ".ends", ".txt", ".counts")
_WORD_LIMIT = 1 << 26  # characters
_WORDS_HELD = 1 << 22  # distinct words counted in memory; beyond that the table is moved to disk and a new one is started


@dataclass(frozen=True)
class EncodedCorpus:
    vocabulary: Vocabulary
    ids: NDArray[np.uint32]  # read-only and memory-mapped
    ends: NDArray[np.int64]  # sentence s is ids[ends[s − 1] : ends[s]]; none is empty
    raw_words: int  # words of the text, rare words included
    lower: bool
    strip_punctuation: bool
    name: str  # the user's name for it

    def sentence(self, number: int) -> NDArray[np.uint32]:
        return self.ids[self.ends[number - 1] if number else 0 : self.ends[number]]


def encoded(
    source: Source,
    *,
    min_count: int = 1,
    max_vocab: int | None = None,
    lower: bool = False,
    strip_punctuation: bool = False,
    base: Vocabulary | None = None,
    format: Format = "auto",
    field: str = "text",
    progress: Progress = silent,
    workers: int | None = None,
) -> EncodedCorpus:
    """`source` as word ids, without rare words; encoded now, by `workers` threads, or read from the cache. For `base` see
    `chosen`."""
    settings = {
        "format": _FORMAT,
        "lower": lower,
        "strip_punctuation": strip_punctuation,
        "min_count": min_count,
        "max_vocab": max_vocab,
        "base_sha256": _fingerprint(base) if base is not None else None,
    }
    with opened(source, format, field, progress) as corpus:
        scan = known_scan(corpus)
        known = None if scan is None else _opened(_Place.of(settings, scan), corpus.name)
        if known is not None:
            return known
        cache.sweep_abandoned(cache.cache_folder())
        with _workplace(cache.cache_folder()) as workplace:
            numbered = _number(corpus, lower, strip_punctuation, workplace, progress, workers or threads())
            place = _Place.of(settings, scan or numbered.scanning.scan())
            if (known := _opened(place, corpus.name)) is None:  # the same text may be known under another name
                _make(place, numbered, chosen(numbered.parts, min_count, max_vocab, base, corpus.name, _WORDS_HELD))
                known = _opened(place, corpus.name, check=False)  # its hashes have just been computed
    if known is None:
        raise DataError(f"{place.path} disappeared while it was being written. Try again, or set FIRTH_CACHE to another folder")
    return known


@dataclass(frozen=True)
class _Place:
    """The cache file of an encoded corpus, and the facts that its header must hold."""

    path: Path
    facts: dict[str, Any]

    @classmethod
    def of(cls, settings: dict[str, Any], scan: Scan) -> _Place:
        facts = {**settings, "text_sha256": scan.sha256}
        key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        return cls(cache.cache_folder() / f"words-{key[:32]}.json", facts)


@dataclass
class _Numbered:
    """A text as numbers of words. Each part has its own numbering, in order of first appearance."""

    ids: Path
    ends: Path
    workers: int
    scanning: Scanning
    parts: list[CountedWords]
    batches: list[tuple[int, int, int]]  # (part, end of its words, end of its newlines) of each batch of text


def _make(place: _Place, numbered: _Numbered, vocabulary: Vocabulary) -> None:
    path = place.path
    with cache.replacing(path.with_suffix(".ids")) as ids, cache.replacing(path.with_suffix(".ends")) as ends:
        words, sentences = _rename(numbered, vocabulary, ids, ends)
    with cache.replacing(path.with_suffix(".counts")) as counts:
        counts.write_bytes(vocabulary.count_V.astype("<i8").data)
    cache.write_text(path.with_suffix(".txt"), "\n".join(vocabulary.words))
    raw_words = numbered.batches[-1][1] if numbered.batches else 0
    sizes = {"words": words, "sentences": sentences, "vocabulary": len(vocabulary), "raw_words": raw_words}
    hashes = {suffix: digests(path.with_suffix(suffix)) for suffix in _FILES}
    cache.write_text(path, json.dumps({**place.facts, **sizes, "blake2b": hashes}, indent=2) + "\n")


@contextlib.contextmanager
def _workplace(folder: Path) -> Iterator[Path]:
    """A prefix for temporary files, removed on exit; the name lets a later run sweep up after a killed process."""
    prefix = folder / f"{TEMPORARY}words-{os.getpid()}-{time.monotonic_ns()}"
    try:
        yield prefix
    except OSError as error:
        reason = error.strerror or error
        raise DataError(
            f"cannot write to the cache folder {folder}: {reason}. Set FIRTH_CACHE to a folder with free space"
        ) from error
    finally:
        for path in folder.glob(f"{prefix.name}*"):
            with contextlib.suppress(OSError):
                path.unlink()


def without_punctuation(text: str) -> str:
    """`text`, whose ends must be word boundaries, with a space for each punctuation mark and symbol: “don't!” is don't."""
    return _PUNCTUATION.sub(" ", text)


class _Numbering:
    """Numbers batches of text in several threads, each with a lexicon of its own."""

    def __init__(self, lower: bool, strip_punctuation: bool, workplace: Path, held: int) -> None:
        self._lower, self._strip, self._workplace, self._held = lower, strip_punctuation, workplace, held
        self._free: SimpleQueue[tuple[int, Lexicon]] = SimpleQueue()  # the lexicons that no thread is using, with their parts
        self._parts: list[CountedWords | None] = []
        self._adding = Lock()

    def __call__(self, text: str) -> tuple[int, NDArray[np.uint32], NDArray[np.int64]]:
        """The part whose numbers these are, the numbers, and the number of words before each newline."""
        try:
            part, lexicon = self._free.get_nowait()
        except Empty:
            part, lexicon = self._new_part(), Lexicon()
        if self._lower:
            text = text.lower()
        ids, ends = lexicon.read((without_punctuation(text) if self._strip else text).encode())
        if len(lexicon) < self._held:
            self._free.put((part, lexicon))
        else:
            self._parts[part] = lexicon.words().spilled(f"{self._workplace}-{part}")
        return part, ids, ends

    def parts(self) -> list[CountedWords]:
        while not self._free.empty():
            part, lexicon = self._free.get_nowait()
            self._parts[part] = lexicon.words()
        return [words for words in self._parts if words is not None]

    def _new_part(self) -> int:
        with self._adding:
            self._parts.append(None)
            return len(self._parts) - 1


def _number(corpus: Corpus, lower: bool, strip_punctuation: bool, workplace: Path, progress: Progress, workers: int) -> _Numbered:
    numbering = _Numbering(lower, strip_punctuation, workplace, max(1, _WORDS_HELD // workers))
    numbered = _Numbered(Path(f"{workplace}-ids"), Path(f"{workplace}-ends"), workers, Scanning(corpus), [], [])
    words = newlines = 0
    with numbered.ids.open("wb") as ids_file, numbered.ends.open("wb") as ends_file:
        for part, ids, ends in in_order(numbering, _whole_words(numbered.scanning, corpus, progress), workers):
            ids_file.write(ids.data)
            ends_file.write(ends.data)
            words, newlines = words + len(ids), newlines + len(ends)
            numbered.batches.append((part, words, newlines))
    numbered.parts = numbering.parts()
    return numbered


def _whole_words(scanning: Scanning, corpus: Corpus, progress: Progress) -> Iterator[str]:
    """The text in batches that end at a word boundary; a document ends with a newline."""
    held: list[str] = []  # the start of a word that may continue in the next batch
    size = corpus.size
    for batch in scanning.batches(lambda done: progress("counting words", done, size)):
        text = "".join([piece.text + "\n" if piece.ends_document else piece.text for piece in batch])
        last = "" if text[-1:].isspace() else text.rsplit(maxsplit=1)[-1]
        head = text[: len(text) - len(last)]
        if head:
            yield "".join((*held, head))
            held.clear()
        held.append(last)
        if sum(map(len, held)) > _WORD_LIMIT:
            raise DataError(f"{corpus.name} has over {_WORD_LIMIT >> 20} MB without white space; expected separate words")


def _rename(numbered: _Numbered, vocabulary: Vocabulary, ids_path: Path, ends_path: Path) -> tuple[int, int]:
    """Write the final ids and sentence ends; returns how many there are of each."""
    lexicon = lexicon_of(vocabulary.words)
    id_W = list(in_order(lexicon.find, numbered.parts, numbered.workers))
    starts = [(0, 0), *((words, newlines) for _, words, newlines in numbered.batches)]

    def renamed(number: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        (first, first_end), (part, last, last_end) = starts[number], numbered.batches[number]
        raw_N, ends = _read(numbered.ids, "<u4", first, last), _read(numbered.ends, "<i8", first_end, last_end)
        ids = np.empty(len(raw_N), np.uint32)
        kept = rename(raw_N, id_W[part], ids, ends)
        return ids[:kept], ends

    words, sentences, before = 0, 0, 0
    with ids_path.open("wb") as ids_file, ends_path.open("wb") as ends_file:
        for ids, raw in in_order(renamed, range(len(numbered.batches)), numbered.workers):
            ids_file.write(ids.data)
            ends = _cut(words + raw, before)
            ends_file.write(ends.data)
            sentences += len(ends)
            before = int(ends[-1]) if len(ends) else before
            words += len(ids)
    return words, sentences


def _cut(ends: NDArray[np.int64], before: int) -> NDArray[np.int64]:
    """Sentence ends after `before`, without empty sentences, and with sentences of more than LONGEST words split."""
    start = np.concatenate(([before], ends))[:-1]
    pieces = -(-(ends - start) // LONGEST)
    place = np.arange(int(pieces.sum())) - np.repeat(np.cumsum(pieces) - pieces, pieces)  # 0, 1, … within each sentence
    return np.minimum(np.repeat(start, pieces) + (place + 1) * LONGEST, np.repeat(ends, pieces)).astype("<i8")


def _fingerprint(vocabulary: Vocabulary) -> str:
    digest = hashlib.sha256("\n".join(vocabulary.words).encode())
    digest.update(vocabulary.count_V.data)
    return digest.hexdigest()


def _opened(place: _Place, name: str, *, check: bool = True) -> EncodedCorpus | None:
    """The cached corpus; None if a file is missing, incomplete or damaged. Damage within files is noticed with `check`."""
    path, facts = place.path, place.facts
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        words, sentences, vocabulary, raw_words = (
            int(header.pop(key)) for key in ("words", "sentences", "vocabulary", "raw_words")
        )
        hashes = header.pop("blake2b")
        ids = _mapped(path.with_suffix(".ids"), np.dtype("<u4"))
        ends = _mapped(path.with_suffix(".ends"), np.dtype("<i8"))
        known = _read_vocabulary(path.with_suffix(".txt"))
        if header != facts or (len(ids), len(ends), len(known)) != (words, sentences, vocabulary):
            return None
        if check and not all(_unchanged(path.with_suffix(suffix), hashes[suffix]) for suffix in _FILES):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, DataError):
        return None
    return EncodedCorpus(known, ids, ends, raw_words, facts["lower"], facts["strip_punctuation"], name)


def _unchanged(path: Path, hashes: list[str]) -> bool:
    if sealed.matches(path, digest("".join(hashes).encode()), lambda: digests(path) == hashes):
        return True
    sealed.tell_damaged(path)
    return False


def _read_vocabulary(path: Path) -> Vocabulary:
    return Vocabulary.packed(path.read_bytes(), np.fromfile(path.with_suffix(".counts"), "<i8"))


def _read(path: Path, dtype: str, first: int, last: int) -> NDArray[Any]:
    """A part of a file of numbers. It is read, not mapped: the pages of a map would count as memory in use."""
    return np.fromfile(path, dtype, last - first, offset=first * np.dtype(dtype).itemsize)


def _mapped(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Memory-mapped read-only. An empty file cannot be mapped and becomes an empty array."""
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.zeros(0, dtype)
