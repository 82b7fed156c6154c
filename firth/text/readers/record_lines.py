"""Tables with a record per line: JSON Lines, and the layout of SCAN."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from firth.errors import DataError
from firth.text.readers.file_decoding import Tick, lines
from firth.text.readers.reader import TableReader

_SHOWN = 40  # characters of a line in a message


class JsonLines(TableReader):
    kind, label, suffixes = "jsonl", "JSON Lines", (".jsonl", ".ndjson")
    about = "One JSON object per line; its keys are the columns."

    @classmethod
    def records(cls, path: Path, tick: Tick) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for number, line in enumerate(lines(path, tick), start=1):
            if line.strip():
                yield f"{path}:{number}", _parsed(line, f"{path}:{number}")


def _parsed(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not JSON ({error}). A .jsonl file holds one JSON object per line.") from error
    if not isinstance(record, dict):
        raise DataError(f'{where} is not a JSON object; expected one such as {{"text": "…"}}')
    return record


class InOut(TableReader):
    """ "IN: walk twice OUT: I_WALK I_WALK", as in SCAN (Lake and Baroni 2018). No suffix announces it; the data set does."""

    kind = "in out"

    @classmethod
    def records(cls, path: Path, tick: Tick) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for number, line in enumerate(lines(path, tick), start=1):
            command, middle, actions = line.strip().partition(" OUT:")
            if not middle or not command.startswith("IN:"):
                raise DataError(f'{path}:{number} is {line.strip()[:_SHOWN]!r}; expected "IN: a command OUT: its actions"')
            yield f"{path}:{number}", {"command": command.removeprefix("IN:"), "actions": actions}
