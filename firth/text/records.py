"""One file of any known format → its documents: all of a txt, one per record of jsonl, csv, tsv and parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth.errors import DataError, did_you_mean
from firth.text.config import Format
from firth.text.cutting import cut, slices
from firth.text.decoding import Tick, lines, texts
from firth.text.parquet import rows

PIECE = 1 << 20  # characters of the largest piece
SUFFIXES: dict[str, Format] = {
    ".txt": "txt",
    ".text": "txt",
    ".md": "txt",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
COMPRESSED = (".gz", ".xz", ".zst")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text small enough to hold; `ends_document` on the last piece of each document."""

    text: str
    ends_document: bool


def format_of(path: Path) -> Format | None:
    """By the suffix, that of compression set aside; None where the suffix says nothing."""
    name = Path(path.stem) if path.suffix.lower() in COMPRESSED else path
    return SUFFIXES.get(name.suffix.lower())


def pieces_of_file(path: Path, format: Format, field: str, tick: Tick) -> Iterator[Piece]:
    chosen = (format_of(path) or "txt") if format == "auto" else format
    match chosen:
        case "jsonl":
            documents = _jsonl(path, field, tick)
        case "csv" | "tsv":
            documents = _table(path, chosen, field, tick)
        case "parquet":
            documents = rows(path, field, tick)
        case _:
            yield from _txt(path, tick)
            return
    for where, text in documents:
        yield from pieces_of_text(_encodable(text, where).replace("\r\n", "\n"))


def pieces_of_text(text: str) -> Iterator[Piece]:
    """One document; nothing at all for an empty one."""
    previous: str | None = None
    for part in slices(text, PIECE):
        if previous is not None:
            yield Piece(previous, ends_document=False)
        previous = part
    if previous is not None:
        yield Piece(previous, ends_document=True)


def _txt(path: Path, tick: Tick) -> Iterator[Piece]:
    rest = ""
    for text in texts(path, tick):
        rest += text
        while len(rest) > PIECE:  # strictly: something remains to be the last piece
            at = cut(rest, PIECE)
            yield Piece(rest[:at], ends_document=False)
            rest = rest[at:]
    if rest:
        yield Piece(rest, ends_document=True)


def _jsonl(path: Path, field: str, tick: Tick) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines(path, tick), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where} is not JSON ({error}); a .jsonl file holds one JSON object per line") from error
        yield where, _text_of(record, field, where)


def _text_of(record: Any, field: str, where: str) -> str:
    if not isinstance(record, dict):
        raise DataError(f'{where} is a JSON {_json_name(record)}; expected an object such as {{"{field}": "…"}}')
    if field not in record:
        raise DataError(f'{where} has no "{field}"; it has: {", ".join(record) or "nothing"}; choose one with data.field')
    text = record[field]
    if not isinstance(text, str):
        raise DataError(f'{where}: "{field}" is a {_json_name(text)}; expected a string')
    return text


def _table(path: Path, format: Format, field: str, tick: Tick) -> Iterator[tuple[str, str]]:
    """In csv a quoted cell may hold commas and newlines (RFC 4180); in tsv a quote is a character like any other."""
    csv.field_size_limit(2**31 - 1)  # of the whole process: the default refuses cells of more than 131,072 characters
    if format == "csv":
        rows = csv.reader(lines(path, tick), strict=True)  # not strict, an open quote would swallow the rest of the file
    else:
        rows = csv.reader(lines(path, tick), delimiter="\t", quoting=csv.QUOTE_NONE)
    try:
        header = next(rows, None)
        if header is None:
            return
        if field not in header:
            near = did_you_mean(field, header)
            raise DataError(f'{path} has no column "{field}"; it has: {", ".join(header)}; choose one with data.field.{near}')
        column = header.index(field)
        for row in rows:
            if not row:
                continue
            where = f"{path}:{rows.line_num}"
            if len(row) <= column:
                raise DataError(f'{where} has {len(row)} cells; "{field}" is column {column + 1} of {len(header)}')
            yield where, row[column]
    except csv.Error as error:
        raise DataError(f"{path}:{rows.line_num} is not valid {format} ({error})") from error


def _encodable(text: str, where: str) -> str:
    """JSON can write half of a surrogate pair, which is no character and has no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where} holds {text[error.start]!r}, half of a surrogate pair; remove it or write the whole pair"
        ) from error
    return text


def _json_name(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "list"
        case _:
            return "object"
