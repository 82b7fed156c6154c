"""One file of any known format → its documents: all of a txt, one per record of jsonl, csv, tsv and parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from firth.errors import DataError, did_you_mean
from firth.text.config import Format
from firth.text.readers.cut_points import cut, slices
from firth.text.readers.file_decoding import Tick, lines, texts
from firth.text.readers.parquet import rows

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
    ".conll": "conll",
    ".conllu": "conllu",
}
COMPRESSED = (".gz", ".xz", ".zst")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text small enough to hold; `ends_document` on the last piece of each document."""

    text: str
    ends_document: bool


@dataclass(frozen=True, slots=True)
class Column:
    """What is wanted of each record: a key of jsonl, a column of csv and tsv."""

    name: str
    setting: str = "data.field"  # of a recipe, to choose another
    numbers: bool = False  # whether JSON may hold a number or a boolean there, taken as it is written


def format_of(path: Path) -> Format | None:
    """By the suffix, that of compression set aside; None where the suffix says nothing."""
    name = Path(path.stem) if path.suffix.lower() in COMPRESSED else path
    return SUFFIXES.get(name.suffix.lower())


def pieces_of_file(path: Path, format: Format, field: str, tick: Tick, header: Sequence[str] | None = None) -> Iterator[Piece]:
    """`header` as for records_of_file."""
    chosen = (format_of(path) or "txt") if format == "auto" else format
    match chosen:
        case "jsonl":
            documents = _jsonl(path, [Column(field)], tick)
        case "csv" | "tsv":
            documents = _table(path, chosen, [Column(field)], tick, header)
        case "parquet":
            documents = ((where, [text]) for where, text in rows(path, field, tick))
        case "conll" | "conllu":
            raise DataError(
                f'{path} has words with tags, one per line, not running text; expected objective.kind = "tagging" and '
                'model.family = "encoder", or another file'
            )
        case _:
            yield from _txt(path, tick)
            return
    for where, (text,) in documents:
        yield from pieces_of_text(_encodable(text, where).replace("\r\n", "\n"))


def records_of_file(
    path: Path, format: Format, wanted: Sequence[Column], tick: Tick, header: Sequence[str] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Where each record of a jsonl, csv or tsv file stands, and what is wanted of it.

    `header` names the columns of a table whose first line does not: one that lacks a column that is wanted.
    """
    chosen = format_of(path) if format == "auto" else format
    match chosen:
        case "jsonl":
            records = _jsonl(path, wanted, tick)
        case "csv" | "tsv":
            records = _table(path, chosen, wanted, tick, header)
        case _:
            names = " and ".join(f'"{column.name}"' for column in wanted)
            raise DataError(
                f"{path} is read as {chosen or 'txt'}, which has no columns such as {names}; "
                "expected csv, tsv or jsonl: name the file so, or set data.format"
            )
    for where, cells in records:
        yield where, [_encodable(cell, where).replace("\r\n", "\n") for cell in cells]


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


def _jsonl(path: Path, wanted: Sequence[Column], tick: Tick) -> Iterator[tuple[str, list[str]]]:
    for number, line in enumerate(lines(path, tick), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where} is not JSON ({error}); a .jsonl file holds one JSON object per line") from error
        yield where, [_text_of(record, column, where) for column in wanted]


def _text_of(record: Any, column: Column, where: str) -> str:
    field = column.name
    if not isinstance(record, dict):
        raise DataError(f'{where} is a JSON {_json_name(record)}; expected an object such as {{"{field}": "…"}}')
    if field not in record:
        raise DataError(f'{where} has no "{field}"; it has: {", ".join(record) or "nothing"}; choose one with {column.setting}')
    text = record[field]
    if column.numbers and isinstance(text, int | float):
        return json.dumps(text)
    if not isinstance(text, str):
        raise DataError(f'{where}: "{field}" is a {_json_name(text)}; expected a string')
    return text


def _table(
    path: Path, format: Format, wanted: Sequence[Column], tick: Tick, header: Sequence[str] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """In csv a quoted cell may hold commas and newlines (RFC 4180); in tsv a quote is a character like any other."""
    csv.field_size_limit(2**31 - 1)  # of the whole process: the default refuses cells of more than 131,072 characters
    if format == "csv":
        rows = csv.reader(lines(path, tick), strict=True)  # not strict, an open quote would swallow the rest of the file
    else:
        rows = csv.reader(lines(path, tick), delimiter="\t", quoting=csv.QUOTE_NONE)
    try:
        first = next(rows, None)
        if first is None:
            return
        named = header is None or all(column.name in first for column in wanted)
        names = first if named else list(header or ())
        places = [_place(column, names, path) for column in wanted]
        for row in rows if named else chain([first], rows):
            if not row:
                continue
            where = f"{path}:{rows.line_num}"
            for column, place in zip(wanted, places, strict=True):
                if len(row) <= place:
                    raise DataError(f'{where} has {len(row)} cells; "{column.name}" is column {place + 1} of {len(names)}')
            yield where, [row[place] for place in places]
    except csv.Error as error:
        raise DataError(f"{path}:{rows.line_num} is not valid {format} ({error})") from error


def _place(column: Column, names: list[str], path: Path) -> int:
    if column.name not in names:
        near = did_you_mean(column.name, names)
        raise DataError(
            f'{path} has no column "{column.name}"; it has: {", ".join(names)}; choose one with {column.setting}.{near}'
        )
    return names.index(column.name)


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
