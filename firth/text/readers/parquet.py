"""Parquet: one document per row of one column, read a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from firth.errors import DataError, did_you_mean
from firth.text.readers.file_decoding import Tick

_ROWS = 256  # decoded at a time
_BUFFER = 1 << 20  # bytes of a column read at a time; without a buffer pyarrow reads a row group's whole column


def rows(path: Path, field: str, tick: Tick) -> Iterator[tuple[str, str]]:
    """Where each row stands, and its text."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise DataError(f"{path} is a parquet file, which needs one more package: pip install pyarrow") from None
    number = 0
    try:
        with parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False) as file:
            _check_column(path, file.schema_arrow, field)
            size, total = path.stat().st_size, file.metadata.num_rows
            for batch in file.iter_batches(_ROWS, columns=[field], use_threads=False):
                for text in batch.column(0).to_pylist():
                    number += 1
                    if text is None:
                        raise DataError(f'{path}, row {number:,}: "{field}" is null; expected a string')
                    yield f"{path}, row {number:,}", text
                tick(size * number // total)
    except UnicodeDecodeError as error:
        raise DataError(f'{path}: "{field}" of a row after {number:,} is not UTF-8 ({error.reason}); write it again') from error
    except (arrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.strerror:  # the system's; pyarrow's own OSErrors have none
            raise DataError(f"cannot read {path}: {error.strerror}") from error
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise DataError(f"cannot read {path} as parquet ({reason}); is it damaged, or compressed once more?") from error


def _check_column(path: Path, schema: Any, field: str) -> None:
    if field not in schema.names:
        near = did_you_mean(field, schema.names)
        raise DataError(f'{path} has no column "{field}"; it has: {", ".join(schema.names)}; choose one with data.field.{near}')
    found = schema.field(field).type
    kind = getattr(found, "value_type", found) if str(found).startswith("dictionary") else found
    if str(kind) not in ("string", "large_string", "string_view"):
        raise DataError(f'{path}: column "{field}" holds {found}; expected strings; choose another with data.field')
