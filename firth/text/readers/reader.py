"""Readers: one class per file format. `READERS` collects them.

A format of text derives from `TextReader` and gives the documents of a file; a table derives from `TableReader` and gives its
records. A recipe names a reader with data.format, or the suffix of its files does.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from firth.errors import DataError, did_you_mean
from firth.ideas import Idea, Ideas
from firth.text.readers.file_decoding import Tick
from firth.text.readers.pieces import Piece, pieces_of_texts


@dataclass(frozen=True, slots=True)
class Column:
    """A value to read from each record: a key of jsonl, a column of csv, tsv or parquet."""

    name: str
    setting: str | None = "data.field"  # the setting that selects another column, for messages; None: there is none
    numbers: bool = False  # also accept numbers and booleans, as text
    optional: bool = False  # the value is None where the file has no such column
    nullable: bool = False  # null is read as an empty text


class FileRow(NamedTuple):
    where: str  # file and line, or file and row, for messages
    values: list[Any]  # as the file has them, one for each requested column


class Reader(Idea):
    suffixes: ClassVar[tuple[str, ...]] = ()  # of the files that it reads unless data.format says otherwise
    contents: ClassVar[str] = "running text"  # what the files hold, for messages
    tagged: ClassVar[bool] = False  # whether they hold tagged words, which ConllColumns reads


class TextReader(Reader):
    @classmethod
    @abstractmethod
    def documents(cls, path: Path, tick: Tick) -> Iterator[str]:
        """The documents of a file. `tick` is called with the number of bytes read so far, as `file_decoding.lines` does."""

    @classmethod
    def pieces(cls, path: Path, tick: Tick) -> Iterator[Piece]:
        """The same in constant memory."""
        return pieces_of_texts(cls.documents(path, tick))


class TableReader(Reader):
    nested: ClassVar[bool] = True  # whether a value may be a list or an object

    @classmethod
    @abstractmethod
    def records(cls, path: Path, tick: Tick) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Each record with its place, such as the file and line, for messages."""

    @classmethod
    def rows(cls, path: Path, columns: Sequence[Column], tick: Tick, header: Sequence[str] | None = None) -> Iterator[FileRow]:
        """The requested columns. `header` names those of a table whose first line does not."""
        for where, record in cls.records(path, tick):
            for column in columns:
                if column.name not in record and not column.optional:
                    raise missing_column(where, column, list(record))
            yield FileRow(where, [record.get(column.name) for column in columns])


READERS: Ideas[type[Reader]] = Ideas("file format", Reader, listed_in="firth.text.readers.formats")
Format = Literal["auto"] | Annotated[str, READERS]  # "auto": the suffix of the file decides


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
