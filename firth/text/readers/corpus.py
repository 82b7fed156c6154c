"""A corpus: text from files, a string or standard input, read in pieces, as often as needed, in constant memory."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import sys
import time
import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError, DataError, did_you_mean
from firth.files import TEMPORARY
from firth.progress import Progress, file_progress, silent
from firth.text import cache
from firth.text.config import Format
from firth.text.parallel import alongside, read_ahead, workers
from firth.text.readers.file_decoding import CHUNK, COMPRESSED, Tick
from firth.text.readers.formats import SUFFIXES, by_suffix, documents, file_format, no_tick
from firth.text.readers.pieces import Piece, batches, pieces_of_text
from firth.text.readers.remote import find_remote, is_url

_READER = 1  # raise when the same files would give a different text, so that old scans are discarded
_BETWEEN = b"\xff"  # hashed between documents; no UTF-8 text contains it
_SETTLED = 2.0  # seconds; a file younger than this could change again and keep its time stamp


@dataclass(frozen=True)
class Corpus:
    """Text that can be read repeatedly: files in order, or a string."""

    name: str  # as the user wrote it, for messages
    files: tuple[Path, ...] = ()
    text: str | None = None
    format: Format = "auto"
    field: str = "text"
    columns: tuple[str, ...] | None = None  # names of the columns of tables whose first line does not name them

    def pieces(self, tick: Tick = no_tick) -> Iterator[Piece]:
        """The documents in order; no document is empty. `tick` is called with the number of bytes read, of `size` in all."""
        if self.text is not None:
            yield from pieces_of_text(self.text.replace("\r\n", "\n"))
        if len(self.files) == 1:
            yield from documents(self.files[0], self.format, self.field, tick, self.columns)
            return
        before = 0
        for path, (batch, done) in read_ahead(self.files, self._batches, workers()):
            yield from batch
            tick(before + done)
            if not batch:  # the end of a file
                before += path.stat().st_size

    def _batches(self, path: Path) -> Iterator[tuple[list[Piece], int]]:
        """The pieces of a file, with the number of bytes read so far; an empty batch ends it."""
        read = [0]
        for batch in batches(documents(path, self.format, self.field, lambda done: read.__setitem__(0, done), self.columns)):
            yield batch, read[0]
        yield [], read[0]

    def expect_field(self) -> None:
        """Refuse a `field` where no file has columns."""
        if self.field != "text" and not any(file_format(path, self.format, columns=True).rows for path in self.files):
            raise ConfigError(f'field is "{self.field}", but {self.name} is plain text without columns. Remove it, or set format')

    def each_file(self, progress: Progress) -> Iterator[tuple[Path, Tick]]:
        """The files, each with the Tick that reports progress through all of them."""
        before, size = 0, self.size
        for path in self.files:
            yield path, file_progress(progress, before, size)
            before += path.stat().st_size

    @property
    def size(self) -> int:
        """Bytes on disk (compressed files count as they are)."""
        return sum(path.stat().st_size for path in self.files)


@dataclass(frozen=True)
class Scan:
    """The result of one pass over a corpus."""

    characters: int
    documents: int
    sha256: str  # of the text as UTF-8, whatever the compression; for one plain file, what sha256sum prints
    counts: dict[str, int]  # how often each character occurs, in code point order


def inline(text: str) -> Corpus:
    return Corpus(name="data.text", text=text)


def find(path: str, format: Format = "auto", field: str = "text", columns: tuple[str, ...] | None = None) -> Corpus:
    """The corpus at `path`: a file, a folder (known suffixes, recursively, sorted), a glob pattern, a pipe such as <(…), or a URL
    of one of these."""
    if is_url(path):
        remote = find_remote(path)
        found = remote if len(remote) == 1 else _readable(remote, path, format)
        return Corpus(path, tuple(found), format=format, field=field, columns=columns)
    place = Path(path).expanduser()
    if place.is_fifo():
        return _of_pipe(place, format, field, columns)
    if place.is_dir():
        found = _in_folder(place, format)
    elif place.exists():
        found = [place]
    elif glob.has_magic(path):
        found = [Path(name) for name in sorted(glob.glob(str(place), recursive=True)) if Path(name).is_file()]
        if not found:
            raise DataError(f"no file matches {path}")
    else:
        raise DataError(f"{path} does not exist.{_near(place)}")
    return Corpus(path, tuple(found), format=format, field=field, columns=columns)


def spool(format: Format = "auto", field: str = "text", columns: tuple[str, ...] | None = None) -> Corpus:
    """Standard input, copied to a file because it is read twice. The caller removes the file."""
    target = _copied(sys.stdin.buffer)
    return Corpus("standard input", (target,), format="txt" if format == "auto" else format, field=field, columns=columns)


def _of_pipe(path: Path, format: Format, field: str, columns: tuple[str, ...] | None) -> Corpus:
    """A pipe can be read only once, so it is copied; the copy is removed together with the corpus."""
    with path.open("rb") as pipe:
        target = _copied(pipe)
    corpus = Corpus(str(path), (target,), format="txt" if format == "auto" else format, field=field, columns=columns)
    weakref.finalize(corpus, target.unlink, missing_ok=True)
    return corpus


def _copied(source: IO[bytes]) -> Path:
    # This name lets `sweep_abandoned` remove the copy of a killed process.
    target = cache.cache_folder() / f"{TEMPORARY}stdin-{os.getpid()}-{time.monotonic_ns()}"
    with cache.replacing(target) as temporary, temporary.open("wb") as file:
        while chunk := source.read(CHUNK):
            file.write(chunk)
    return target


def scan(corpus: Corpus, progress: Progress = silent) -> Scan:
    """Count a corpus. The result is cached by the paths, sizes and times of its files, so a large one is read only once."""
    if (known := known_scan(corpus)) is not None:
        return known
    size, remembered = corpus.size, _scan_path(corpus)
    lock: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if remembered is not None:  # one process counts, the others wait for its result
        lock = cache.locked(remembered.with_suffix(".lock"), lambda: progress("waiting for another process", 0, size))
    with lock:
        if (known := known_scan(corpus)) is not None:
            return known
        scanning = Scanning(corpus)
        deque(scanning.batches(lambda done: progress("reading", done, size)), maxlen=0)
        return scanning.scan()


def known_scan(corpus: Corpus) -> Scan | None:
    """The cached scan of a corpus."""
    remembered = _scan_path(corpus)
    return None if remembered is None else _recall(remembered)


class Scanning:
    """Counts and hashes a corpus in two more threads, while the caller does something else with the text."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._counts = np.zeros(sys.maxunicode + 1, np.int64)
        self._digest, self._between = hashlib.sha256(), b""
        self._characters = self._documents = 0

    def batches(self, tick: Tick = no_tick) -> Iterator[list[Piece]]:
        """The text; all of it has been counted after the last batch."""
        return alongside(self._count, alongside(self._hash, batches(self._corpus.pieces(tick))))

    def scan(self) -> Scan:
        if self._characters == 0:
            raise DataError(f"{self._corpus.name} is empty; expected some text")
        present = {chr(code): int(self._counts[code]) for code in np.flatnonzero(self._counts)}
        result = Scan(self._characters, self._documents, self._digest.hexdigest(), present)
        if (remembered := _scan_path(self._corpus)) is not None:
            record = {**vars(result), "counts": {str(ord(character)): count for character, count in result.counts.items()}}
            cache.write_text(remembered, json.dumps(record))
        return result

    def _hash(self, batch: list[Piece]) -> None:
        encoded: list[bytes] = []
        for piece in batch:
            encoded += (self._between, piece.text.encode())
            self._between = _BETWEEN if piece.ends_document else b""
        self._digest.update(b"".join(encoded))

    def _count(self, batch: list[Piece]) -> None:
        text = "".join([piece.text for piece in batch])
        self._characters += len(text)
        self._documents += sum(piece.ends_document for piece in batch)
        seen = _occurrences(text)
        self._counts[: len(seen)] += seen


def _occurrences(text: str) -> NDArray[np.int64]:
    """How often each code point occurs."""
    if not text.isascii():
        return np.bincount(np.frombuffer(text.encode("utf-32-le"), np.uint32))
    pairs = np.frombuffer(text.encode() + b"\0" * (len(text) % 2), np.uint16)  # two characters at a time: half the work
    seen = np.bincount(pairs, minlength=1 << 16).reshape(256, 256)
    count: NDArray[np.int64] = seen.sum(0) + seen.sum(1)
    count[0] -= len(text) % 2
    return count


def part(pieces: Iterator[Piece], start: int, stop: int) -> Iterator[Piece]:
    """The characters from `start` up to `stop`; the first and last document may be incomplete."""
    at = 0
    for piece in pieces:
        low, high = max(start - at, 0), min(stop - at, len(piece.text))
        if low < high:
            yield Piece(piece.text[low:high], piece.ends_document and high == len(piece.text))
        at += len(piece.text)
        if at >= stop:
            return


def _scan_path(corpus: Corpus) -> Path | None:
    """Where the scan of exactly these files is cached; None if it could not be trusted later."""
    if not corpus.files:
        return None
    states = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in corpus.files]
    if time.time() - max(state[2] for state in states) / 1e9 < _SETTLED:
        return None
    key = hashlib.sha256(json.dumps([_READER, states, corpus.format, corpus.field, corpus.columns]).encode()).hexdigest()
    return cache.cache_folder() / f"scan-{key[:32]}.json"


def _recall(path: Path) -> Scan | None:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        counts = {chr(int(code)): int(count) for code, count in record["counts"].items()}
        return Scan(record["characters"], record["documents"], record["sha256"], counts)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # absent or damaged: scan again


def _in_folder(folder: Path, format: Format) -> list[Path]:
    """An explicit format applies to every file. Hidden files and folders are never read."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not _hidden(path.relative_to(folder)))
    return _readable(files, str(folder), format)


def _readable(files: list[Path], folder: str, format: Format) -> list[Path]:
    if format == "auto":
        files = [path for path in files if by_suffix(path) is not None]
    if not files:
        known, packed = ", ".join(SUFFIXES), ", ".join(COMPRESSED)
        raise DataError(
            f"no text in {folder}; expected files ending in {known} (also {packed}). Set data.format to read every file."
        )
    return files


def _hidden(path: Path) -> bool:
    return any(name.startswith(".") for name in path.parts)


def _near(place: Path) -> str:
    """A suggestion for a missing file: a file beside it with a similar name."""
    siblings = [path.name for path in place.parent.iterdir()] if place.parent.is_dir() else []
    suggestion = did_you_mean(place.name, siblings)
    return suggestion if "Did you mean" in suggestion else f" There is no such file in {place.parent.resolve()}."
