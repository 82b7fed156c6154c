"""A corpus as word ids on disk, memory-mapped, so that you can train on more text than fits into memory.

`words-<key>.ids` holds little-endian uint32 ids, `.ends` the exclusive end of each sentence as int64, `.txt` the vocabulary and
`.counts` its counts. `.json` describes them and is written last. The key is a hash of the text and of the settings that select
the vocabulary.

The text is read once. Words are numbered in order of appearance (`Lexicon`), and these numbers are written to disk. Once the
counts are known, the numbers are replaced by ids and rare words are removed from their sentences, as in word2vec.
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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError
from firth.files import TEMPORARY
from firth.progress import Progress, silent
from firth.text import cache
from firth.text.config import Format
from firth.text.readers.corpus import Corpus, scan
from firth.vectors.lexicon import Lexicon, Words, to_bytes
from firth.vectors.sentences import Source, opened
from firth.vectors.vocabulary import Vocabulary, chosen

_FORMAT = 2
_PUNCTUATION = re.compile(r"[^\w\s'’-]+|(?<!\w)['’-]+|['’-]+(?!\w)")  # an apostrophe or hyphen within a word belongs to it
LONGEST = 10_000  # words of a sentence; a longer one is split (text8 is a single line)
_DROPPED = np.uint32(0xFFFFFFFF)
_AT_ONCE = 1 << 20  # ids renamed at a time
_WORD_LIMIT = 1 << 26  # bytes
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
) -> EncodedCorpus:
    """`source` as word ids, without rare words; encoded now or read from the cache. For `base` see `chosen`."""
    with opened(source, format, field, progress) as corpus:
        facts = {
            "format": _FORMAT,
            "text_sha256": scan(corpus, progress).sha256,
            "lower": lower,
            "strip_punctuation": strip_punctuation,
            "min_count": min_count,
            "max_vocab": max_vocab,
            "base_sha256": _fingerprint(base) if base is not None else None,
        }
        key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        path = cache.cache_folder() / f"words-{key[:32]}.json"
        known = _opened(path, facts, corpus.name)
        if known is None:
            cache.sweep_abandoned(path.parent)
            _make(path, facts, corpus, base, progress)
            known = _opened(path, facts, corpus.name)
    if known is None:
        raise DataError(f"{path} disappeared while it was being written. Try again, or set FIRTH_CACHE to another folder")
    return known


@dataclass
class _Numbered:
    """Words numbered in order of first appearance; each part has its own numbering."""

    parts: list[Words]
    part_ends: list[int]  # number of words up to the end of each part
    ids: Path
    ends: Path


def _make(path: Path, facts: dict[str, Any], corpus: Corpus, base: Vocabulary | None, progress: Progress) -> None:
    with _workplace(path.parent) as workplace:
        numbered = _number(corpus, facts["lower"], facts["strip_punctuation"], workplace, progress)
        vocabulary = chosen(numbered.parts, facts["min_count"], facts["max_vocab"], base, corpus.name)
        with cache.replacing(path.with_suffix(".ids")) as ids, cache.replacing(path.with_suffix(".ends")) as ends:
            words, sentences = _rename(numbered, vocabulary, ids, ends)
    with cache.replacing(path.with_suffix(".counts")) as counts:
        counts.write_bytes(vocabulary.count_V.astype("<i8").data)
    cache.write_text(path.with_suffix(".txt"), "\n".join(vocabulary.words))
    sizes = {"words": words, "sentences": sentences, "vocabulary": len(vocabulary), "raw_words": numbered.part_ends[-1]}
    cache.write_text(path, json.dumps({**facts, **sizes}, indent=2) + "\n")


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


def _number(corpus: Corpus, lower: bool, strip_punctuation: bool, workplace: Path, progress: Progress) -> _Numbered:
    numbered = _Numbered([], [], Path(f"{workplace}-ids"), Path(f"{workplace}-ends"))
    lexicon, words = Lexicon(), 0
    with numbered.ids.open("wb") as ids_file, numbered.ends.open("wb") as ends_file:
        for text in _whole_words(corpus, lower, progress):
            ids, ends = lexicon.read(without_punctuation(text.decode()).encode() if strip_punctuation else text)
            ids_file.write(ids.data)
            ends_file.write((ends + words).data)
            words += len(ids)
            if len(lexicon) >= _WORDS_HELD:
                numbered.parts.append(lexicon.words().spilled(f"{workplace}-{len(numbered.parts)}"))
                numbered.part_ends.append(words)
                lexicon = Lexicon()
    numbered.parts.append(lexicon.words())
    numbered.part_ends.append(words)
    return numbered


def _whole_words(corpus: Corpus, lower: bool, progress: Progress) -> Iterator[bytes]:
    """The text in chunks that end at a word boundary; a document ends with a newline."""
    held: list[bytes] = []  # the start of a word that may continue in the next piece
    size = corpus.size
    for piece in corpus.pieces(lambda done: progress("counting words", done, size)):
        text = to_bytes(piece.text.lower() if lower else piece.text)
        if piece.ends_document:
            yield b"".join((*held, text, b"\n"))
            held.clear()
            continue
        last = b"" if text[-1:].isspace() else text.rsplit(maxsplit=1)[-1]
        head = text[: len(text) - len(last)]
        if head:
            yield b"".join((*held, head))
            held.clear()
        held.append(last)
        if sum(map(len, held)) > _WORD_LIMIT:
            raise DataError(f"{corpus.name} has over {_WORD_LIMIT >> 20} MB without white space; expected separate words")


def _rename(numbered: _Numbered, vocabulary: Vocabulary, ids_path: Path, ends_path: Path) -> tuple[int, int]:
    """Write the final ids and sentence ends; returns how many there are of each."""
    raw_ids, raw_ends = _mapped(numbered.ids, np.dtype("<u4")), _mapped(numbered.ends, np.dtype("<i8"))
    words, sentences, at, before = 0, 0, 0, 0
    with ids_path.open("wb") as ids_file, ends_path.open("wb") as ends_file:
        for part, part_end in zip(numbered.parts, numbered.part_ends, strict=True):
            id_W = _final_ids(part, vocabulary)
            while at < part_end:
                stop = min(at + _AT_ONCE, part_end)
                ids = id_W[raw_ids[at:stop]]
                kept = ids != _DROPPED
                ids_file.write(ids[kept].data)
                first, last = np.searchsorted(raw_ends, (at, stop), side="right")
                kept_before = np.concatenate(([0], np.cumsum(kept)))
                ends = _cut(words + kept_before[raw_ends[first:last] - at], before)
                ends_file.write(ends.data)
                sentences += len(ends)
                before = int(ends[-1]) if len(ends) else before
                words += int(kept_before[-1])
                at = stop
    return words, sentences


def _final_ids(part: Words, vocabulary: Vocabulary) -> NDArray[np.uint32]:
    ids = map(vocabulary.id, part.spelled())
    return np.fromiter((_DROPPED if id is None else id for id in ids), np.uint32, len(part))


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


def _opened(path: Path, facts: dict[str, Any], name: str) -> EncodedCorpus | None:
    """The cached corpus; None if a file is missing or incomplete."""
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        words, sentences, vocabulary, raw_words = (
            int(header.pop(key)) for key in ("words", "sentences", "vocabulary", "raw_words")
        )
        ids = _mapped(path.with_suffix(".ids"), np.dtype("<u4"))
        ends = _mapped(path.with_suffix(".ends"), np.dtype("<i8"))
        known = _read_vocabulary(path.with_suffix(".txt"))
        if header != facts or (len(ids), len(ends), len(known)) != (words, sentences, vocabulary):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, DataError):
        return None
    return EncodedCorpus(known, ids, ends, raw_words, facts["lower"], facts["strip_punctuation"], name)


def _read_vocabulary(path: Path) -> Vocabulary:
    return Vocabulary.packed(path.read_bytes(), np.fromfile(path.with_suffix(".counts"), "<i8"))


def _mapped(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Memory-mapped read-only. An empty file cannot be mapped and becomes an empty array."""
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.zeros(0, dtype)
