"""One way to read every file format: `records` gives the requested columns of each record, `documents` gives running text.

To add a format, write a module that defines its `FileFormat` and add it to `FORMATS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from firth.errors import DataError
from firth.text.config import Format
from firth.text.readers.conll import CONLL, CONLLU
from firth.text.readers.delimited import CSV, TSV
from firth.text.readers.file_decoding import Tick, chunks, suffix_of
from firth.text.readers.file_format import Column, FileFormat
from firth.text.readers.jsonl import JSONL
from firth.text.readers.parquet import PARQUET
from firth.text.readers.pieces import Piece, pieces_of_text
from firth.text.readers.plain_text import TXT

FORMATS = (TXT, JSONL, CSV, TSV, PARQUET, CONLL, CONLLU)
SUFFIXES = tuple(suffix for format in FORMATS for suffix in format.suffixes)
_LINE = 1 << 16  # bytes of the first line that are examined to recognise a table
_PARQUET_MAGIC = b"PAR1"
TABLES = tuple(format.name for format in FORMATS if format.rows is not None)


class Record(NamedTuple):
    where: str  # file and line, or file and row, for messages
    texts: list[str]  # one for each requested column


def no_tick(done: int) -> None:
    """The Tick that reports nothing."""


def by_suffix(path: Path, formats: Sequence[FileFormat] = FORMATS) -> FileFormat | None:
    """The format that the file name announces, compression aside; None where the suffix is unknown."""
    return next((format for format in formats if suffix_of(path) in format.suffixes), None)


def file_format(
    path: Path, given: Format = "auto", formats: Sequence[FileFormat] = FORMATS, *, columns: bool = False
) -> FileFormat:
    """`given`, or, where that is "auto", the format that the file name announces, otherwise plain text. Where `columns` are asked
    for, a file whose suffix is unknown, such as eng.train, is a table if it looks like one."""
    if given == "auto":
        return by_suffix(path, formats) or (_table(path) if columns else None) or TXT
    return next(format for format in FORMATS if format.name == given)


def _table(path: Path) -> FileFormat | None:
    """The format of a table, judged by its first line."""
    start = next(chunks(path, no_tick), b"")[:_LINE]
    if start.startswith(_PARQUET_MAGIC):
        return PARQUET
    line = start.decode("utf-8", "replace").lstrip("\ufeff \r\n").partition("\n")[0]
    if line.startswith("{"):
        return JSONL
    return TSV if "\t" in line else CSV if "," in line else None


def is_table(path: Path) -> bool:
    """Whether the file name announces a format with columns."""
    format = by_suffix(path)
    return format is not None and format.rows is not None


def records(
    path: Path,
    columns: Sequence[Column],
    format: Format | FileFormat = "auto",
    tick: Tick = no_tick,
    header: Sequence[str] | None = None,
) -> Iterator[Record]:
    """The requested columns of each record as text, in constant memory. `header` names the columns of a csv or tsv file whose
    first line does not."""
    chosen = format if isinstance(format, FileFormat) else file_format(path, format, columns=True)
    if chosen.rows is None:
        names = " and ".join(f'"{column.name}"' for column in columns)
        raise DataError(
            f"{path} is read as {chosen.name}, which has no columns such as {names}. "
            f"Use a {one_of(TABLES)} file, or set data.format."
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
    if chosen.pieces is not None:
        yield from chosen.pieces(path, tick)
    elif chosen.rows is None:
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


def one_of(names: Sequence[str]) -> str:
    """("csv", "tsv", "jsonl") → "csv, tsv or jsonl"."""
    return f"{', '.join(names[:-1])} or {names[-1]}"


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
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return f"of type {type(value).__name__}"
