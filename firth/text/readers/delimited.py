"""Comma- and tab-separated tables. In csv a quoted cell may hold commas and newlines (RFC 4180); in tsv a quote is a character
like any other."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from firth.errors import DataError
from firth.text.limits import limits
from firth.text.readers.file_decoding import Tick, lines
from firth.text.readers.reader import Column, FileRow, TableReader, missing_column


class Csv(TableReader):
    kind, label, suffixes, nested = "csv", "CSV", (".csv",), False
    about = "Comma-separated columns; the first line names them."
    dialect: ClassVar[dict[str, Any]] = {"strict": True}  # otherwise an open quote would swallow the rest of the file

    @classmethod
    def rows(cls, path: Path, columns: Sequence[Column], tick: Tick, header: Sequence[str] | None = None) -> Iterator[FileRow]:
        """`header` names the columns of a table whose first line does not, that is, of one that lacks a requested column."""
        csv.field_size_limit(limits().line)  # for the whole process: the default refuses cells of more than 131,072 characters
        table = csv.reader(lines(path, tick), **cls.dialect)
        try:
            first = next(table, None)
            if first is None:
                return
            named = header is None or all(column.name in first for column in columns if not column.optional)
            names = first if named else list(header or ())
            places = [_place(column, names, path) for column in columns]
            for cells in table if named else chain([first], table):
                if cells:
                    where = f"{path}:{table.line_num}"
                    yield FileRow(where, [_cell(cells, place, where, names) for place in places])
        except csv.Error as error:
            raise DataError(f"{path}:{table.line_num} is not valid {cls.kind} ({error})") from error


class Tsv(Csv):
    kind, label, suffixes = "tsv", "TSV", (".tsv",)
    about = "Tab-separated columns; the first line names them."
    dialect: ClassVar[dict[str, Any]] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}


def _place(column: Column, names: list[str], path: Path) -> int | None:
    if column.name in names:
        return names.index(column.name)
    if column.optional:
        return None
    raise missing_column(str(path), column, names, from_first_line=True)


def _cell(cells: list[str], place: int | None, where: str, names: list[str]) -> str | None:
    if place is None:
        return None
    if len(cells) <= place:
        count = f"{len(cells)} cell{'s' if len(cells) != 1 else ''}"
        raise DataError(f'{where} has {count}; "{names[place]}" is column {place + 1} of {len(names)}')
    return cells[place]
