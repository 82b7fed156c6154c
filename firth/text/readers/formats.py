"""One way to read every file format: `records` gives the requested columns of each record, `documents` gives running text.

To add a format, write a module with its `Reader` and add it to `READERS.ship` below.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from firth.errors import ConfigError, DataError
from firth.text.readers.conll import Conll, ConllU
from firth.text.readers.delimited import Csv, Tsv
from firth.text.readers.file_decoding import Tick, chunks, lines, suffix_of, texts
from firth.text.readers.parquet import Parquet
from firth.text.readers.pieces import Piece, pieces_of_chunks, pieces_of_text
from firth.text.readers.reader import READERS, Column, Format, Reader, TableReader, TextReader
from firth.text.readers.record_lines import JsonLines

_LINE = 1 << 16  # bytes of the first line that are examined to recognise a table
_PARQUET_MAGIC = b"PAR1"


class PlainText(TextReader):
    kind, label, suffixes = "txt", "plain text", (".txt", ".text", ".md")
    about = "The whole file is one document."

    @classmethod
    def documents(cls, path: Path, tick: Tick) -> Iterator[str]:
        yield "".join(texts(path, tick))

    @classmethod
    def pieces(cls, path: Path, tick: Tick) -> Iterator[Piece]:
        return pieces_of_chunks(texts(path, tick))


READERS.ship(PlainText, JsonLines, Csv, Tsv, Parquet, Conll, ConllU)


class Record(NamedTuple):
    where: str  # file and line, or file and row, for messages
    texts: list[str]  # one for each requested column


def no_tick(done: int) -> None:
    """The Tick that reports nothing."""


def by_suffix(path: Path, readers: Iterable[type[Reader]] = READERS) -> type[Reader] | None:
    """The format that the file name announces, compression aside; None where the suffix is unknown."""
    return next((reader for reader in readers if suffix_of(path) in reader.suffixes), None)


def suffixes() -> list[str]:
    return [suffix for reader in READERS for suffix in reader.suffixes]


def file_format(path: Path, given: Format = "auto", *, columns: bool = False) -> type[Reader]:
    """`given`, or, where that is "auto", the format that the file name announces, otherwise plain text. Where `columns` are asked
    for, a file whose suffix is unknown, such as eng.train, is a table if it looks like one."""
    if given == "auto":
        return by_suffix(path) or (_table(path) if columns else None) or PlainText
    return READERS[given]


def _table(path: Path) -> type[Reader] | None:
    """The format of a table, judged by its first line."""
    start = next(chunks(path, no_tick), b"")[:_LINE]
    if start.startswith(_PARQUET_MAGIC):
        return Parquet
    line = start.decode("utf-8", "replace").lstrip("\ufeff \r\n").partition("\n")[0]
    if line.startswith("{"):
        return JsonLines
    return Tsv if "\t" in line else Csv if "," in line else None


def expect_format(given: str) -> None:
    """Refuse the name of a format that there is not."""
    if given != "auto" and given not in READERS:
        raise ConfigError(f"format is {given!r}; expected one of auto, {', '.join(READERS.kinds)}.{READERS.near(given)}")


def is_table(path: Path) -> bool:
    """True if the file name announces a format with columns."""
    format = by_suffix(path)
    return format is not None and issubclass(format, TableReader)


def records(
    path: Path,
    columns: Sequence[Column],
    format: Format | type[Reader] = "auto",
    tick: Tick = no_tick,
    header: Sequence[str] | None = None,
) -> Iterator[Record]:
    """The requested columns of each record as text, in constant memory. `header` names the columns of a csv or tsv file whose
    first line does not."""
    chosen = file_format(path, format, columns=True) if isinstance(format, str) else format
    if not issubclass(chosen, TableReader):
        names = " and ".join(f'"{column.name}"' for column in columns)
        raise DataError(
            f"{path} is read as {chosen.kind}, which has no columns such as {names}. "
            f"Use a {one_of_tables()} file, or set data.format."
        )
    for where, values in chosen.rows(path, columns, tick, header):
        yield Record(where, [_text(value, column, where) for value, column in zip(values, columns, strict=True)])


def documents(
    path: Path,
    format: Format,
    field: str,
    tick: Tick = no_tick,
    header: Sequence[str] | None = None,
    blank: Callable[[str], None] = lambda where: None,
) -> Iterator[Piece]:
    """Running text: all of a plain text file, or the column `field` of each record, a document each. A record whose text is blank
    is no document; `blank` is called with its place."""
    chosen = file_format(path, format, columns=header is not None or field != "text")
    if issubclass(chosen, TextReader):
        yield from chosen.pieces(path, tick)
    elif not issubclass(chosen, TableReader):
        raise DataError(
            f'{path} holds {chosen.contents}, not running text. Choose another file, or objective.kind = "tagging" '
            'with model.family = "encoder".'
        )
    else:
        for where, (text,) in records(path, [Column(field, nullable=True)], chosen, tick, header):
            if text.strip():
                yield from pieces_of_text(text)
            else:
                blank(where)


def text_lines(path: Path, reader: type[Reader], tick: Tick = no_tick) -> Iterator[str]:
    """The lines of a file of text, without those of its format."""
    if issubclass(reader, TextReader) and reader is not PlainText:
        return (line for text in reader.documents(path, tick) for line in text.splitlines())
    return lines(path, tick)


def one_of_tables() -> str:
    """The formats with columns: "jsonl, csv, tsv or parquet"."""
    return _one_of(TableReader)


def one_of_documents() -> str:
    """The formats of running text: "txt, jsonl, csv, tsv or parquet"."""
    return _one_of((TextReader, TableReader))


def _one_of(bases: type[Reader] | tuple[type[Reader], ...]) -> str:
    *names, last = (reader.kind for reader in READERS if issubclass(reader, bases))
    return f"{', '.join(names)} or {last}"


def _text(value: Any, column: Column, where: str) -> str:
    if value is None and column.nullable:
        return ""
    if isinstance(value, str):
        return _encodable(value, where).replace("\r\n", "\n")
    if column.numbers and isinstance(value, int | float):
        return json.dumps(value)
    expected = "a string or a number" if column.numbers else "a string"
    remedy = f"Correct it, or choose another column with {column.setting}." if column.setting else "Correct it."
    raise DataError(f'{where}: "{column.name}" is {_kind(value)}; expected {expected}. {remedy}')


def _encodable(text: str, where: str) -> str:
    """JSON can spell half of a surrogate pair, which is not a character and has no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where} holds {text[error.start]!r}, half of a surrogate pair. Remove it, or write the whole pair."
        ) from error
    return text


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), f"of type {type(value).__name__}")
