"""Lines such as "IN: walk twice OUT: I_WALK I_WALK", the layout of SCAN (Lake and Baroni 2018): the columns "command" and
"actions". No suffix announces it; the catalog does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from firth.errors import DataError
from firth.text.readers.file_decoding import Tick, lines
from firth.text.readers.file_format import Column, FileFormat, Row, missing_column

COLUMNS = ("command", "actions")
_SHOWN = 40  # characters of a line in a message


def _rows(path: Path, columns: Sequence[Column], tick: Tick, header: Sequence[str] | None = None) -> Iterator[Row]:
    for column in columns:
        if column.name not in COLUMNS:
            raise missing_column(str(path), column, COLUMNS)
    for number, line in enumerate(lines(path, tick), start=1):
        command, middle, actions = line.strip().partition(" OUT:")
        if not middle or not command.startswith("IN:"):
            raise DataError(f'{path}:{number} is {line.strip()[:_SHOWN]!r}; expected "IN: a command OUT: its actions"')
        values = {"command": command.removeprefix("IN:"), "actions": actions}
        yield Row(f"{path}:{number}", [values[column.name] for column in columns])


IN_OUT = FileFormat("in out", rows=_rows)
