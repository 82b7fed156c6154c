"""The protocol of a file format. Each reader module defines one or two; `formats.FORMATS` lists them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from firth.errors import DataError, did_you_mean
from firth.text.readers.file_decoding import Tick
from firth.text.readers.pieces import Piece


@dataclass(frozen=True, slots=True)
class Column:
    """A value to read from each record: a key of jsonl, a column of csv, tsv or parquet."""

    name: str
    setting: str | None = "data.field"  # the setting that selects another column, for messages; None: there is none
    numbers: bool = False  # also accept numbers and booleans, as text
    optional: bool = False  # the value is None where the file has no such column
    nullable: bool = False  # null is read as an empty text


class Row(NamedTuple):
    where: str  # file and line, or file and row, for messages
    values: list[Any]  # as the file has them, one for each requested column


RowReader = Callable[[Path, Sequence[Column], Tick, Sequence[str] | None], Iterator[Row]]
PieceReader = Callable[[Path, Tick], Iterator[Piece]]


@dataclass(frozen=True)
class FileFormat:
    """`rows` reads the requested columns of each record; formats without columns have `pieces` or neither."""

    name: str
    suffixes: tuple[str, ...] = ()
    rows: RowReader | None = None
    pieces: PieceReader | None = None
    contents: str = "running text"  # what the files hold, for messages


def missing_column(where: str, column: Column, names: Sequence[str], *, from_first_line: bool = False) -> DataError:
    """The error for a file, or a record, without a requested column. `from_first_line`: a header, or else the first record."""
    near = did_you_mean(column.name, names)
    suggestion = near if "Did you mean" in near else ""
    header = (
        ", or name the columns with data.columns if the first line is not a header" if from_first_line and not suggestion else ""
    )
    choose = f" Choose one with {column.setting}{header}." if column.setting else ""
    has = ", ".join(names) or "nothing"
    return DataError(f'{where} has no column "{column.name}"; it has: {has}.{choose}{suggestion}')
