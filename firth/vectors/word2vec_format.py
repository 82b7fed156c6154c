"""The word-vector formats of other tools: text (word2vec, GloVe, fastText) and binary (word2vec).

    text     [V d]        word 0.1 -0.2 …
    binary   V d\\n        word, a space, d little-endian float32, and in the original tool's files a newline

Only ASCII white space separates fields: published vocabularies contain words with no-break spaces. A few contain words with
plain spaces, so the numbers are counted from the right.

Letters: V words, d dimension, N rows of a block.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import IO

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError
from firth.vectors.float32_text import nearest_float32, shortest, to_float32

Chunks = Iterator[bytes]
_LONGEST = 1 << 26  # bytes of a line, a word or a vector; a file with longer ones is not a vectors file
_FIRST_ROOM = 1 << 20  # numbers that there is room for at the start
_SPACES = (b"  ", b"\t", b"\v", b"\f", b"\r")  # besides single spaces
_WRITTEN = 1 << 16  # numbers formatted at a time


class VectorRows:
    """The words and vectors read so far; grows in place, so that it need not trust the header."""

    def __init__(self, dim: int, where: str) -> None:
        if 4 * dim > _LONGEST:
            raise DataError(f"{where} declares vectors of dimension {dim:,}; expected at most {_LONGEST // 4:,}")
        self.where = where  # the file, for messages
        self.words: list[str] = []
        self.dim = dim
        self._vector_Vd = np.empty((max(1, _FIRST_ROOM // max(1, dim)), dim), np.float32)

    def add(self, words: list[bytes], block_Nd: NDArray[np.float32]) -> None:
        if not words:
            return
        first = len(self.words)
        self.words += self._decoded(words)
        if len(self.words) > len(self._vector_Vd):
            self._vector_Vd.resize((max(len(self.words), 2 * len(self._vector_Vd)), self.dim), refcheck=False)
        if not np.isfinite(block_Nd).all():
            row, column = np.argwhere(~np.isfinite(block_Nd))[0]
            raise DataError(
                f'{self.where}, row {first + row + 1:,} ("{self.words[first + row]}"): number {column + 1} is '
                f"{block_Nd[row, column]}; expected a finite float32"
            )
        self._vector_Vd[first : len(self.words)] = block_Nd

    def finished(self, promised: int | None) -> tuple[list[str], NDArray[np.float32]]:
        if promised is not None and promised != len(self.words):
            raise DataError(f"{self.where} has {len(self.words):,} words, but its header says {promised:,}")
        if not self.words:
            raise DataError(f"{self.where} contains no word vectors")
        self._check_different()
        self._vector_Vd.resize((len(self.words), self.dim), refcheck=False)
        return self.words, self._vector_Vd

    def _decoded(self, words: list[bytes]) -> list[str]:
        if b"" in words:
            raise DataError(f"{self.where}, row {len(self.words) + words.index(b'') + 1:,}: no word before the numbers")
        try:
            texts = b"\n".join(words).decode().split("\n")
        except UnicodeDecodeError:
            texts = []
        if len(texts) != len(words):
            self._refuse_word(words)
        return texts

    def _refuse_word(self, words: list[bytes]) -> None:
        for n, word in enumerate(words, len(self.words) + 1):
            try:
                text = word.decode()
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{self.where}, row {n:,}: the word {word[:40]!r} is not UTF-8. Convert the file, or check the dimension in "
                    "its header"
                ) from error
            if "\n" in text:
                raise DataError(
                    f"{self.where}, row {n:,}: the word {word[:40]!r} has a newline. Check the dimension in the header"
                )

    def _check_different(self) -> None:
        if len(set(self.words)) == len(self.words):
            return
        seen: dict[str, int] = {}
        for row, word in enumerate(self.words, 1):
            if seen.setdefault(word, row) != row:
                raise DataError(f'{self.where}: "{word}" occurs in rows {seen[word]:,} and {row:,}. Remove one of them')


def read_text(chunks: Chunks, where: str, header: tuple[int, int] | None) -> VectorRows:
    """Read rows of text; a header must be the first line."""
    rows = VectorRows(header[1], where) if header else None
    for first, lines in _blocks_of_lines(chunks, where):
        numbered = [(n, line) for n, line in enumerate(lines, first) if line and not (header and n == 1)]
        if not numbered:
            continue
        rows = rows or VectorRows(_dim(*numbered[0], where), where)
        words, block_Nd = _parsed(numbered, rows.dim, where)
        rows.add(words, block_Nd)
    return rows or VectorRows(0, where)


def read_binary(chunks: Chunks, where: str, header: tuple[int, int]) -> VectorRows:
    V, d = header
    rows, rest, started = VectorRows(d, where), b"", False
    for chunk in chunks:
        rest += chunk
        if not started:
            started, rest = True, rest.partition(b"\n")[2]  # the header
        words, vectors, at = _binary_rows(rest, d, V - len(rows.words), where, len(rows.words))
        rows.add(words, np.frombuffer(vectors, "<f4").reshape(-1, d))
        rest = rest[at:]
        if len(rows.words) == V and rest.strip(b"\n"):
            raise DataError(f"{where} continues after the {V:,} words of dimension {d} that its header announces")
    if len(rows.words) < V:
        raise DataError(
            f"{where} is truncated: it ends in row {len(rows.words) + 1:,} of {V:,} (dimension {d}). Copy or download it again"
        )
    return rows


def write_text(
    file: IO[bytes], words: list[str], vector_Vd: NDArray[np.float32], tail: bytes, tick: Callable[[int], None]
) -> None:
    """Write one line per word; `tail` comes before the newline (fastText writes a space there)."""
    size = max(1, _WRITTEN // max(1, vector_Vd.shape[1]))
    for low in range(0, len(words), size):
        block_Nd = vector_Vd[low : low + size]
        number = iter(shortest(block_Nd))
        lines = [" ".join((word, *(next(number) for _ in range(block_Nd.shape[1])))) for word in words[low : low + size]]
        file.write((tail + b"\n").join(line.encode() for line in lines) + tail + b"\n")
        tick(low + len(lines))


def write_binary(file: IO[bytes], words: list[str], vector_Vd: NDArray[np.float32], tick: Callable[[int], None]) -> None:
    """Write rows like the original tool, with the newline; gensim reads both variants."""
    for n, word in enumerate(words):
        file.write(word.encode() + b" " + vector_Vd[n].astype("<f4").tobytes() + b"\n")
        if n % 4096 == 0:
            tick(n)


def is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field  # float() accepts 1_000


def _blocks_of_lines(chunks: Chunks, where: str) -> Iterator[tuple[int, list[bytes]]]:
    """(number of the first line, complete lines without trailing white space)"""
    rest, first = b"", 1
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        if len(rest) > _LONGEST:
            raise DataError(f"{where}, line {first + len(whole):,} is over {_LONGEST >> 20} MB long; expected one word per line")
        yield first, [line.rstrip() for line in whole]
        first += len(whole)
    yield first, [rest.rstrip()]


def _dim(number: int, line: bytes, where: str) -> int:
    """The dimension of a file without a header: the number of fields in its first row, minus the word."""
    fields = line.split()
    if len(fields) < 2 or not is_number(fields[-1]):
        shown = line[:60].decode(errors="replace")
        raise DataError(f'{where}, line {number:,}: "{shown}"; expected a word and its vector, or a header of two integers')
    return len(fields) - 1


def _parsed(numbered: list[tuple[int, bytes]], d: int, where: str) -> tuple[list[bytes], NDArray[np.float32]]:
    """Parse all rows at once if they are well-formed; otherwise one by one, to name the malformed row."""
    if all(line.count(b" ") == d for _, line in numbered):
        words, texts = zip(*(line.split(b" ", 1) for _, line in numbered), strict=True)
        joined = b" ".join(texts)
        # with other white space, one row could have too many numbers and another too few
        number = np.empty(0) if any(space in joined for space in _SPACES) else _numbers(joined)
        if len(number) == len(words) * d:
            rounded, doubtful = to_float32(number)
            for n in doubtful:
                rounded[n] = nearest_float32(texts[n // d].split(b" ")[n % d].decode())
            return list(words), rounded.reshape(-1, d)
    rows = [_row(n, line, d, where) for n, line in numbered]
    return [word for word, _ in rows], np.stack([vector_d for _, vector_d in rows])


def _numbers(text: bytes) -> NDArray[np.float64]:
    """As many numbers as can be parsed; on an error the caller parses row by row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # numpy's warning that some text is not a number
        try:
            return np.fromstring(text, np.float64, sep=" ")
        except ValueError:
            return np.empty(0)


def _row(number: int, line: bytes, d: int, where: str) -> tuple[bytes, NDArray[np.float32]]:
    fields = line.split()
    word, texts = (line.rsplit(None, d)[0], fields[-d:]) if len(fields) > d else (fields[0], fields[1:])
    # A word with spaces, or too many numbers: too many if a field between the word and the last d fields is a number.
    if len(texts) < d or any(map(is_number, fields[1:-d])):
        raise DataError(f"{where}, line {number:,}: {len(fields) - 1} numbers, expected {d} as in the header or first row")
    for text in texts:
        if not is_number(text):
            shown = text[:40].decode(errors="replace")
            raise DataError(f'{where}, line {number:,}: "{shown}" is not a number; expected a word and {d} numbers')
    return word, np.array([nearest_float32(text.decode()) for text in texts], np.float32)


def _binary_rows(data: bytes, d: int, limit: int, where: str, before: int) -> tuple[list[bytes], bytes, int]:
    """The words and vectors of at most `limit` complete rows in `data`, and the offset of the first incomplete row."""
    words: list[bytes] = []
    vectors: list[bytes] = []
    at = 0
    while len(words) < limit:
        start = at
        while data[start : start + 1] == b"\n":  # the original tool ends each row with a newline
            start += 1
        space = data.find(b" ", start)
        end = space + 1 + 4 * d
        if space < 0 and len(data) - start > _LONGEST:
            raise DataError(f"{where}, row {before + len(words) + 1:,}: no space after the word. Check the dimension {d}")
        if space < 0 or end > len(data):
            break
        words.append(data[start:space])
        vectors.append(data[space + 1 : end])
        at = end
    return words, b"".join(vectors), at
