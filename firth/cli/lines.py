"""Read texts line by line from arguments, a file or standard input, and group them into batches."""

from __future__ import annotations

import os
import queue
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from firth.errors import ConfigError, DataError

T = TypeVar("T")
A = TypeVar("A")

_CHUNK = 1 << 16  # bytes
_GATHER = 0.05  # seconds to wait for one more line before a batch is processed


def check_given(texts: list[str] | None, file: Path | None) -> None:
    if file is not None and texts:
        raise ConfigError(f"texts and --file {file} cannot be combined. Remove one of them.")


def given(texts: list[str] | None, file: Path | None, *, forgiving: bool = False) -> Iterable[str]:
    """The texts themselves, the lines of a file, or the lines of standard input ("-", or if nothing is given).

    Invalid UTF-8 raises an error. With `forgiving` it becomes U+FFFD with one warning, so that every line gets an answer."""
    if file is not None and str(file) != "-":
        return _read(_lines_of(file), lambda number: f"line {number} of {file}", forgiving) if forgiving else _decoded_lines(file)
    if texts and texts != ["-"]:
        # Arguments can hold any bytes; Python decodes those that are not UTF-8 to lone surrogates.
        return _read(map(os.fsencode, texts), lambda number: f"text {number}", forgiving)
    return _read(_lines(_standard_input()), lambda number: f"line {number} of standard input", forgiving)


def _decoded_lines(file: Path) -> Iterator[str]:
    from firth.text.readers.file_decoding import lines

    return (line.removesuffix("\n") for line in lines(file, lambda done: None))


def count(file: Path) -> int:
    return sum(1 for _ in _lines_of(file))


def _lines_of(file: Path) -> Iterator[bytes]:
    from firth.text.readers.file_decoding import chunks

    return _lines(chunks(file, lambda done: None))


def _standard_input() -> Iterator[bytes]:
    """The bytes of standard input as they arrive. Avoids sys.stdin.buffer where possible: a thread that waits there holds a lock
    that Python needs at exit, and Ctrl-C would crash."""
    try:
        number = sys.stdin.fileno()
    except OSError:  # replaced by another object, for example in a test
        return iter(sys.stdin.buffer.read, b"")
    return iter(lambda: os.read(number, _CHUNK), b"")


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    parts: list[bytes] = []
    for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield b"".join((*parts, line))
            parts.clear()
        if rest:
            parts.append(rest)
    if parts:
        yield b"".join(parts)


def _read(lines: Iterable[bytes], place: Callable[[int], str], forgiving: bool) -> Iterator[str]:
    warned = False
    for number, line in enumerate(lines, start=1):
        encoding = "utf-8-sig" if number == 1 else "utf-8"  # skip a byte order mark
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError as error:
            problem = f"{place(number)} is not UTF-8 ({error.reason})"
            if not forgiving:
                raise DataError(f"{problem}; convert it to UTF-8") from error
            if not warned:
                warnings.warn(f"{problem}; invalid bytes are replaced by U+FFFD from here on", stacklevel=2)
            warned, text = True, line.decode(encoding, "replace")
        yield text.removesuffix("\r")


def answered(texts: Iterable[str], most: int, answer: Callable[[list[str]], Iterable[A]]) -> Iterator[tuple[str, A | None]]:
    """Each text with its answer, computed in batches of at most `most`; None for a blank text."""
    for batch in batches(texts, most):
        answers = iter(answer([text for text in batch if text.strip()]))
        for text in batch:
            yield text, next(answers) if text.strip() else None


def batches(texts: Iterable[T], most: int) -> Iterator[list[T]]:
    """The texts that have arrived so far, at most `most` at once: a line typed by hand is answered immediately, and a file is
    processed in large batches.

    A thread reads the lines ahead of the work."""
    waiting: queue.Queue[T | BaseException | None] = queue.Queue(2 * most)

    def read() -> None:
        try:
            for text in texts:
                waiting.put(text)
            waiting.put(None)
        except BaseException as error:
            waiting.put(error)

    threading.Thread(target=read, daemon=True).start()
    batch: list[T] = []
    while True:
        try:
            text = waiting.get(timeout=_GATHER) if batch else waiting.get()
        except queue.Empty:
            yield batch
            batch = []
            continue
        if isinstance(text, BaseException):
            if batch:
                yield batch  # the lines before the one that cannot be read
            raise text
        if text is None:
            break
        batch.append(text)
        if len(batch) == most:
            yield batch
            batch = []
    if batch:
        yield batch
