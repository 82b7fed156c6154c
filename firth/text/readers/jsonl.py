"""JSON Lines: one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from firth.errors import DataError
from firth.text.readers.file_decoding import Tick, lines
from firth.text.readers.file_format import Column, FileFormat, Row, missing_column


def _rows(path: Path, columns: Sequence[Column], tick: Tick, header: Sequence[str] | None = None) -> Iterator[Row]:
    """`header` is unused: every object names its own keys."""
    for number, line in enumerate(lines(path, tick), start=1):
        if line.strip():
            where = f"{path}:{number}"
            record = _parsed(line, where, columns[0].name)
            yield Row(where, [_value(record, column, where) for column in columns])


def _parsed(line: str, where: str, example: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not JSON ({error}). A .jsonl file holds one JSON object per line.") from error
    if not isinstance(record, dict):
        raise DataError(f'{where} is not a JSON object; expected one such as {{"{example}": "…"}}')
    return record


def _value(record: dict[str, Any], column: Column, where: str) -> Any:
    if column.name not in record and not column.optional:
        raise missing_column(where, column, list(record))
    return record.get(column.name)


JSONL = FileFormat("jsonl", (".jsonl", ".ndjson"), rows=_rows)
