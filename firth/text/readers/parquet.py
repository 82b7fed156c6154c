"""Parquet: the requested columns, decoded a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from firth.errors import DataError
from firth.text.limits import limits
from firth.text.readers.file_decoding import Tick
from firth.text.readers.reader import Column, FileRow, TableReader, missing_column
from firth.text.readers.remote import RemoteFile

_ROWS, _FEW = 256, 16  # decoded at a time; fewer where they may be large
_MOST = 1 << 30  # maximum size of a batch in bytes
_BUFFER = 1 << 20  # bytes of a column read at a time; without a buffer pyarrow reads a row group's whole column


class Parquet(TableReader):
    kind, label, suffixes = "parquet", "Parquet", (".parquet",)
    about = "Apache Parquet, read a few rows at a time."

    @classmethod
    def rows(cls, path: Path, columns: Sequence[Column], tick: Tick, header: Sequence[str] | None = None) -> Iterator[FileRow]:
        """`header` is unused: the file names its columns."""
        try:
            import pyarrow as arrow
            from pyarrow import parquet
        except ImportError:
            raise DataError(f"{path} is a parquet file, which needs one more package: pip install pyarrow") from None
        number = 0
        try:
            source = path.open("rb") if isinstance(path, RemoteFile) else path
            with parquet.ParquetFile(source, buffer_size=_BUFFER, pre_buffer=False) as file:
                present = _present(path, file.schema_arrow.names, columns)
                size, total = path.stat().st_size, file.metadata.num_rows
                largest = _largest(file.metadata, present, path)
                most, given = limits(), 0
                for batch in file.iter_batches(min(_ROWS, max(_FEW, _MOST // largest)), columns=present, use_threads=False):
                    most.check_size(path, size, given := given + batch.nbytes)
                    for values in _values(batch, columns):
                        number += 1
                        yield FileRow(f"{path}, row {number:,}", values)
                    tick(size * number // total)
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: a row after row {number:,} is not UTF-8 ({error.reason}). Write the file again.") from error
        except (arrow.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.strerror:  # the system's; pyarrow's own OSErrors have none
                raise DataError(f"cannot read {path}: {error.strerror}") from error
            reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
            raise DataError(f"cannot read {path} as parquet ({reason}). Is it damaged, or compressed a second time?") from error


def _present(path: Path, names: Sequence[str], columns: Sequence[Column]) -> list[str]:
    for column in columns:
        if column.name not in names and not column.optional:
            raise missing_column(str(path), column, names)
    return [column.name for column in columns if column.name in names]


def _largest(metadata: Any, present: Sequence[str], path: Path) -> int:
    """Bytes of the largest stretch of a column, decompressed. A value that many rows share is stored once, so the rows of a batch
    may hold as many times more: stretches that are packed too tightly are refused before any is read."""
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    chunks = (group.column(number) for group in groups for number in range(group.num_columns))
    most, largest = limits(), 1
    strict = replace(most, small=most.small // _ROWS)
    for chunk in chunks:
        if chunk.path_in_schema.split(".")[0] in present:
            strict.check_size(path, chunk.total_compressed_size, chunk.total_uncompressed_size)
            largest = max(largest, chunk.total_uncompressed_size)
    return largest


def _values(batch: Any, columns: Sequence[Column]) -> Iterator[list[Any]]:
    """The rows of a batch; None for a column that the file does not have."""
    values_of = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    absent = [None] * batch.num_rows
    return map(list, zip(*(values_of.get(column.name, absent) for column in columns), strict=True))
