"""Texts line by line: from arguments, a file or standard input, and as many at a time as there are."""

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

_CHUNK = 1 << 16  # bytes
_GATHER = 0.05  # seconds that a batch waits for one more line


def check_given(texts: list[str] | None, file: Path | None) -> None:
    if file is not None and texts:
        raise ConfigError(f"texts and --file {file} were given; give one of them")


def given(texts: list[str] | None, file: Path | None, *, forgiving: bool = False) -> Iterable[str]:
    """The texts themselves, the lines of a file, or those of standard input ("-", or where nothing is given).

    What is not UTF-8 is refused; with `forgiving` it is read as U+FFFD and said once, so that every line has an answer."""
    if file is not None and str(file) != "-":
        return _read(_lines_of(file), lambda number: f"line {number} of {file}", forgiving) if forgiving else of_file(file)
    if texts and texts != ["-"]:
        # An argument may be any bytes, and Python hides those that are not UTF-8 in halves of surrogate pairs.
        return _read(map(os.fsencode, texts), lambda number: f"text {number}", forgiving)
    return _read(_lines(_typed()), lambda number: f"line {number} of standard input", forgiving)


def of_file(file: Path) -> Iterator[str]:
    from firth.text.readers.file_decoding import lines

    return (line.removesuffix("\n") for line in lines(file, lambda done: None))


def count(file: Path) -> int:
    return sum(1 for _ in _lines_of(file))


def _lines_of(file: Path) -> Iterator[bytes]:
    from firth.text.readers.file_decoding import chunks

    return _lines(chunks(file, lambda done: None))


def _typed() -> Iterator[bytes]:
    """What standard input has, as it comes. Not through sys.stdin.buffer where it can be avoided: a thread that waits there holds
    a lock that Python wants when it ends, and Ctrl-C would end in a crash."""
    try:
        number = sys.stdin.fileno()
    except OSError:  # something else in its place, as in a test
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
    said = False
    for number, line in enumerate(lines, start=1):
        encoding = "utf-8-sig" if number == 1 else "utf-8"  # a byte order mark is no part of a text
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError as error:
            problem = f"{place(number)} is not UTF-8 ({error.reason})"
            if not forgiving:
                raise DataError(f"{problem}; convert it") from error
            if not said:
                warnings.warn(f"{problem}; such bytes are read as U+FFFD, here and further on", stacklevel=2)
            said, text = True, line.decode(encoding, "replace")
        yield text.removesuffix("\r")


def batches(texts: Iterable[T], most: int) -> Iterator[list[T]]:
    """What has come so far, up to `most`: a person who types one line gets an answer, a file goes through in large pieces.

    The lines are read by a thread, ahead of the work."""
    waiting: queue.Queue[T | BaseException | None] = queue.Queue(2 * most)

    def read() -> None:
        try:
            for text in texts:
                waiting.put(text)
            waiting.put(None)
        except BaseException as error:
            waiting.put(error)

    threading.Thread(target=read, daemon=True).start()
    found: list[T] = []
    while True:
        try:
            text = waiting.get(timeout=_GATHER) if found else waiting.get()
        except queue.Empty:
            yield found
            found = []
            continue
        if isinstance(text, BaseException):
            if found:
                yield found  # what came before a line that cannot be read
            raise text
        if text is None:
            break
        found.append(text)
        if len(found) == most:
            yield found
            found = []
    if found:
        yield found
