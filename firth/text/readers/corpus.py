"""A corpus: text from files, a string or standard input, read in pieces, as often as needed, in constant memory."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import select
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError, DataError, did_you_mean
from firth.files import TEMPORARY, exists, is_file, is_folder
from firth.ideas import Origin
from firth.progress import Progress, file_progress, silent
from firth.text import cache, sealed
from firth.text.limits import expect_space, expect_text_file, limits, shortened
from firth.text.readers.blank_records import BlankRecords, Empty
from firth.text.readers.file_decoding import CHUNK, COMPRESSED, Tick
from firth.text.readers.formats import by_suffix, documents, file_format, no_tick, suffixes
from firth.text.readers.pieces import Piece, batches, pieces_of_text
from firth.text.readers.reader import READERS, Format, TableReader
from firth.text.readers.remote import find_remote, is_url
from firth.text.threads import alongside, read_ahead, workers

_READER = 2  # increase if the same files give a different text, so that old scans are discarded
_BETWEEN = b"\xff"  # hashed between documents; no UTF-8 text contains it
_WAIT = 200  # milliseconds between two reports on a pipe without a writer
_LONGEST_NAME = 255  # bytes, on most file systems
_NEIGHBORS = 1000  # files beside a missing one that are compared with its name
_FILES = 1000  # in a folder, between two reports


@dataclass(frozen=True)
class Corpus:
    """Text that can be read repeatedly: files in order, or a string."""

    name: str  # as the user wrote it, for messages
    files: tuple[Path, ...] = ()
    text: str | None = None
    format: Format = "auto"
    field: str = "text"
    columns: tuple[str, ...] | None = None  # names of the columns of tables whose first line does not name them
    empty: Empty = "skip"  # records whose text is blank
    parts: tuple[Corpus, ...] = ()  # the corpora it was made of: the copy of a pipe lasts as long as its corpus

    def pieces(self, tick: Tick = no_tick, blank: Callable[[str], None] = lambda where: None) -> Iterator[Piece]:
        """The documents in order; no document is empty. `tick` is called with the number of bytes read, of `size` in all, and
        `blank` with the place of each record without text."""
        if self.text is not None:
            yield from pieces_of_text(self.text.replace("\r\n", "\n"))
        if len(self.files) == 1:
            yield from documents(self.files[0], self.format, self.field, tick, self.columns, blank)
            return
        before = 0
        for path, (batch, done) in read_ahead(self.files, partial(self._batches, blank), workers()):
            yield from batch
            tick(before + done)
            if not batch:  # the end of a file
                before += path.stat().st_size

    def _batches(self, blank: Callable[[str], None], path: Path) -> Iterator[tuple[list[Piece], int]]:
        """The pieces of a file, with the number of bytes read so far; an empty batch ends it."""
        read = [0]
        tick = partial(read.__setitem__, 0)
        for batch in batches(documents(path, self.format, self.field, tick, self.columns, blank)):
            yield batch, read[0]
        yield [], read[0]

    def expect_columns(self, table: str = "") -> None:
        """Refuse `field` and `columns` where no file has columns. `table` is that of the recipe, for the message: "data."."""
        given = {"field": f'"{self.field}"'} if self.field != "text" else {}
        given |= {"columns": str(list(self.columns))} if self.columns is not None else {}
        if given and not any(issubclass(file_format(path, self.format, columns=True), TableReader) for path in self.files):
            name, value = next(iter(given.items()))
            raise ConfigError(f"{table}{name} is {value}, but {self.name} has no columns. Remove it, or set {table}format.")

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
    blank: int = 0  # records without text, which are no documents
    blank_places: tuple[str, ...] = ()  # the first few of them


def inline(text: str, field: str = "text", columns: tuple[str, ...] | None = None) -> Corpus:
    return Corpus("data.text", (), text, "txt", field, columns)


def find(
    path: str,
    format: Format = "auto",
    field: str = "text",
    columns: tuple[str, ...] | None = None,
    progress: Progress = silent,
    empty: Empty = "skip",
) -> Corpus:
    """The corpus at `path`: a file, a folder (known suffixes, recursively, sorted), a glob pattern, a pipe such as <(…), or a URL
    of one of these."""
    if is_url(path):
        remote = find_remote(path)
        paths = remote if len(remote) == 1 else _readable(remote, path, format)
        return Corpus(path, tuple(paths), None, format, field, columns, empty)
    place = Path(path).expanduser()
    if exists(place):
        expect_text_file(place)
        if place.is_fifo():
            return _of_pipe(place, format, field, columns, progress, empty)
        paths = _in_folder(place, format, progress) if place.is_dir() else [place]
    elif glob.has_magic(path):
        paths = [Path(name) for name in sorted(glob.glob(str(place), recursive=True)) if is_file(name)]
        if not paths:
            raise DataError(f"no file matches {shortened(path)}")
    else:
        raise DataError(f"{shortened(path)} does not exist.{_near(place)}")
    return Corpus(path, tuple(paths), None, format, field, columns, empty)


def origins_of_readers(paths: Iterable[str], format: Format) -> set[Origin]:
    """The origins of the readers of these files and folders, of those that firth does not ship."""
    if all(READERS.origin(kind) is None for kind in READERS.kinds):
        return set()
    files = (one for path in paths for one in (find(path, format).files if _is_several(path) else [Path(path)]))
    kinds = {file_format(file, format).kind for file in files}
    return {origin for kind in kinds if (origin := READERS.origin(kind)) is not None}


def _is_several(path: str) -> bool:
    return not is_url(path) and (is_folder(Path(path).expanduser()) or glob.has_magic(path))


def spool(
    format: Format = "auto",
    field: str = "text",
    columns: tuple[str, ...] | None = None,
    progress: Progress = silent,
    empty: Empty = "skip",
) -> Corpus:
    """Standard input, copied to a file because it is read twice. The caller removes the file."""
    target = _copied(sys.stdin.buffer, progress)
    return Corpus("standard input", (target,), None, "txt" if format == "auto" else format, field, columns, empty)


def _of_pipe(path: Path, format: Format, field: str, columns: tuple[str, ...] | None, progress: Progress, empty: Empty) -> Corpus:
    """A pipe can be read only once, so it is copied; the copy is removed together with the corpus."""
    with _opened_pipe(path, progress) as pipe:
        target = _copied(pipe, progress)
    corpus = Corpus(str(path), (target,), None, "txt" if format == "auto" else format, field, columns, empty)
    weakref.finalize(corpus, target.unlink, missing_ok=True)
    return corpus


def _opened_pipe(path: Path, progress: Progress) -> IO[bytes]:
    """Open without blocking until there is a writer, so that progress can be reported while it waits."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        waited = select.poll()
        waited.register(descriptor, select.POLLIN | select.POLLHUP)
        while not waited.poll(_WAIT):
            progress(f"waiting for someone to write to {shortened(path)}", 0, 0)
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def _copied(source: IO[bytes], progress: Progress) -> Path:
    # This name lets `sweep_abandoned` remove the copy of a killed process.
    target = cache.cache_folder() / f"{TEMPORARY}stdin-{os.getpid()}-{time.monotonic_ns()}"
    done = 0
    with cache.replacing(target) as temporary, temporary.open("wb") as file:
        while chunk := source.read(CHUNK):
            expect_space(target.parent)
            file.write(chunk)
            done += len(chunk)
            progress("copying the pipe", done, 0)
    progress("copying the pipe", done, done)
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
    scanned = None if remembered is None else _recall(remembered)
    return scanned and _settled(corpus, scanned)


def _settled(corpus: Corpus, scanned: Scan) -> Scan:
    """Warn about records without text, or refuse them."""
    blank = BlankRecords()
    blank.count, blank.first = scanned.blank, list(scanned.blank_places)
    blank.settle(corpus.empty, corpus.name, scanned.documents + scanned.blank)
    return scanned


class Scanning:
    """Counts and hashes a corpus in two more threads, while the caller does something else with the text."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._counts = np.zeros(sys.maxunicode + 1, np.int64)
        self._digest, self._between = hashlib.sha256(), b""
        self._characters = self._documents = 0
        self._blank = BlankRecords()

    def batches(self, tick: Tick = no_tick) -> Iterator[list[Piece]]:
        """The text; all of it has been counted after the last batch."""
        return alongside(self._count, alongside(self._hash, batches(self._corpus.pieces(tick, self._blank.add))))

    def scan(self) -> Scan:
        if self._characters == 0:
            raise DataError(f"{self._corpus.name} is empty; expected some text")
        present = {chr(code): int(self._counts[code]) for code in np.flatnonzero(self._counts)}
        blank = self._blank
        result = Scan(self._characters, self._documents, self._digest.hexdigest(), present, blank.count, tuple(blank.first))
        if (remembered := _scan_path(self._corpus)) is not None:
            record = {**vars(result), "counts": {str(ord(character)): count for character, count in result.counts.items()}}
            sealed.write_text(remembered, json.dumps(record))
        return _settled(self._corpus, result)

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
    """The number of times that each code point occurs."""
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
    """The file in which the scan of exactly these files is cached; None if it could not be trusted later."""
    if not corpus.files:
        return None
    states = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in corpus.files]
    if time.time() - max(state[2] for state in states) / 1e9 < sealed.SETTLED:
        return None
    own = sorted(map(str, origins_of_readers(map(str, corpus.files), corpus.format)))
    key = hashlib.sha256(json.dumps([_READER, states, corpus.format, corpus.field, corpus.columns, *own]).encode()).hexdigest()
    return cache.cache_folder() / f"scan-{key[:32]}.json"


def _recall(path: Path) -> Scan | None:
    if not sealed.whole(path):
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        counts = {chr(int(code)): int(count) for code, count in record["counts"].items()}
        places = tuple(str(place) for place in record["blank_places"])
        return Scan(record["characters"], record["documents"], record["sha256"], counts, int(record["blank"]), places)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # absent or damaged: scan again


def _in_folder(folder: Path, format: Format, progress: Progress) -> list[Path]:
    """An explicit format applies to every file. Hidden files and folders are never read, nor what links to folders lead to."""
    files: list[Path] = []
    most, seen, told = limits(), 0, 0
    for where, folders, names in os.walk(folder, onerror=_cannot_look):
        folders[:] = [name for name in folders if not name.startswith(".")]
        here = [Path(where, name) for name in names if not name.startswith(".")]
        seen += len(names)
        files += [path for path in here if (format != "auto" or by_suffix(path) is not None) and is_file(path)]
        most.check_files(folder, len(files), seen)
        if seen - told >= _FILES:
            progress("looking for files", seen, 0)
            told = seen
    progress("looking for files", seen, seen)
    return _readable(sorted(files), str(folder), format)


def _cannot_look(error: OSError) -> None:
    raise DataError(f"cannot read the folder {error.filename}: {error.strerror}. Choose one that you have access to.") from error


def _readable(files: list[Path], folder: str, format: Format) -> list[Path]:
    if format == "auto":
        files = [path for path in files if by_suffix(path) is not None]
    if not files:
        known, packed = ", ".join(suffixes()), ", ".join(COMPRESSED)
        raise DataError(
            f"no text in {folder}; expected files ending in {known} (also {packed}). Set data.format to read every file."
        )
    return files


def _near(place: Path) -> str:
    """A suggestion for a missing file: a file beside it with a similar name."""
    if len(os.fsencode(place.name)) > _LONGEST_NAME:
        return " Give the name of a file, or - to read the text from standard input."
    siblings = [path.name for path in islice(place.parent.iterdir(), _NEIGHBORS)] if is_folder(place.parent) else []
    suggestion = did_you_mean(place.name, siblings)
    return suggestion if "Did you mean" in suggestion else f" There is no such file in {place.parent.resolve()}."
