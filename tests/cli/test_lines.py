"""Texts line by line, from wherever they come."""

from __future__ import annotations

import gzip
import io
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from firth.cli.lines import batches, check_given, count, given
from firth.errors import ConfigError, DataError

LINES: dict[str, tuple[bytes, list[str]]] = {
    "nothing": (b"", []),
    "one line": (b"a b\n", ["a b"]),
    "no newline at the end": (b"a\nb", ["a", "b"]),
    "an empty line": (b"\n", [""]),
    "empty lines around": (b"\na\n\n\nb\n\n", ["", "a", "", "", "b", ""]),
    "white space": (b" \n\t\na \n", [" ", "\t", "a "]),
    "carriage returns": (b"a\r\n\r\nb\r\n", ["a", "", "b"]),
    "a carriage return inside": (b"a\rb\n", ["a\rb"]),
    "a byte order mark": (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
    "other ends of lines": ("a\u2028b\u0085c\x0cd\n".encode(), ["a\u2028b\u0085c\x0cd"]),
    "bytes that are no text": (b"a\xff\xfeb\nc\n\xc3\n", ["a\ufffd\ufffdb", "c", "\ufffd"]),
    "zeros": (b"a\0b\n", ["a\0b"]),
}
GARBLED = "bytes that are no text"


def typing(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))


@pytest.mark.parametrize("name", LINES)
@pytest.mark.filterwarnings("ignore:.*is not UTF-8")
def test_a_file_and_standard_input_have_the_same_lines(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, lines = LINES[name]
    path = tmp_path / "a {} b.txt"
    path.write_bytes(content)
    assert list(given(None, path, forgiving=True)) == lines
    assert count(path) == len(lines)
    for texts, file in ((None, None), ([], None), (["-"], None), (None, Path("-"))):
        typing(monkeypatch, content)
        assert list(given(texts, file, forgiving=True)) == lines
    if name != GARBLED:
        typing(monkeypatch, content)
        assert list(given(None, path)) == list(given(None, None)) == lines


def test_lines_are_whole_where_chunks_of_a_file_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firth.text.readers.file_decoding.CHUNK", 3)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress("aé\r\n\nbcdefghé\r\nx".encode()))
    assert list(given(None, path, forgiving=True)) == list(given(None, path)) == ["aé", "", "bcdefghé", "x"]
    assert count(path) == 4


def test_arguments_are_texts_even_where_they_are_no_text() -> None:
    hidden = b"a\xff".decode("utf-8", "surrogateescape")  # as Python hands over arguments
    assert list(given(["a", "", "b\nc"], None)) == ["a", "", "b\nc"]
    with pytest.raises(DataError, match=r"text 2 is not UTF-8 \(invalid start byte\); convert it to UTF-8"):
        list(given(["a", hidden], None))
    with pytest.warns(UserWarning, match="text 2 is not UTF-8"):
        assert list(given(["a", hidden], None, forgiving=True)) == ["a", "a\ufffd"]


def test_bytes_that_are_no_text_are_refused_or_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, _ = LINES[GARBLED]
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\n" + content)
    with pytest.warns(UserWarning, match="is not UTF-8") as caught:
        list(given(None, path, forgiving=True))
    problem = f"line 2 of {path} is not UTF-8 (invalid start byte)"
    assert [str(warning.message) for warning in caught] == [f"{problem}; invalid bytes are replaced by U+FFFD from here on"]
    typing(monkeypatch, b"fine\n" + content)
    with pytest.raises(DataError, match=r"line 2 of standard input is not UTF-8 \(invalid start byte\); convert it to UTF-8"):
        list(given(None, None))
    with pytest.raises(DataError, match="is not UTF-8"):
        list(given(None, path))


def test_texts_and_a_file_are_one_too_many() -> None:
    check_given(None, Path("a"))
    check_given(["a"], None)
    with pytest.raises(ConfigError, match="texts and --file b cannot be combined"):
        check_given(["a"], Path("b"))


@pytest.mark.parametrize("most", [1, 2, 3, 7, 100])
def test_batches_keep_every_text_in_order(most: int) -> None:
    texts = [str(n) for n in range(20)]
    read = list(batches(iter(texts), most))
    assert [text for some in read for text in some] == texts
    assert all(0 < len(some) <= most for some in read)
    assert list(batches(iter([]), most)) == []


class Typing:
    """Texts that come when they are handed over; None ends them."""

    def __init__(self) -> None:
        self.coming: queue.Queue[Any] = queue.Queue()

    def __iter__(self) -> Iterator[str]:
        while (text := self.coming.get()) is not None:
            if isinstance(text, Exception):
                raise text
            yield text


def test_what_has_come_is_not_held_back_for_more() -> None:
    """Each line is handed over only after the answer to the one before; the timer ends what would otherwise wait for ever."""
    typist, answers = Typing(), []
    typist.coming.put("0")
    with rescued(typist):
        for n, some in enumerate(batches(typist, 100), start=1):
            answers.append(some)
            typist.coming.put(str(n) if n < 4 else None)
    assert answers == [["0"], ["1"], ["2"], ["3"]]


@contextmanager
def rescued(typist: Typing) -> Iterator[None]:
    timer = threading.Timer(20, typist.coming.put, [None])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def test_what_came_before_an_error_is_answered_first() -> None:
    typist = Typing()
    for text in ("a", "b", DataError("no text")):
        typist.coming.put(text)
    reading = batches(typist, 100)
    assert next(reading) == ["a", "b"]
    with pytest.raises(DataError, match="no text"):
        next(reading)


def test_a_reader_that_stops_leaves_nobody_waiting() -> None:
    """The thread that reads ahead must not keep a process alive."""
    before = set(threading.enumerate())
    batches_of_two = batches((str(n) for n in range(10_000)), 2)
    next(batches_of_two)
    reading = set(threading.enumerate()) - before
    assert [thread.daemon for thread in reading] == [True]
