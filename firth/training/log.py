"""log.jsonl: one JSON object per line. On resume it is cut back to the step resumed from, so no step is in it twice."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from firth import files


class Log:
    def __init__(self, path: Path, step: int) -> None:
        kept = [line for line in read(path) if line["step"] <= step]
        files.write_text(path, "".join(json.dumps(line) + "\n" for line in kept))
        self._path = path
        with files.writing(path):
            self._file = path.open("a", encoding="utf-8")

    def write(self, line: dict[str, Any]) -> None:
        with files.writing(self._path):
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()

    def sync(self) -> None:
        """Called before a checkpoint: no checkpoint survives a power cut that its lines of the log do not survive."""
        with files.writing(self._path):
            os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with contextlib.suppress(OSError):  # a line that could not be written is tried again here; it was reported already
            self._file.close()


def read(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a log; a last line cut short by a kill is dropped."""
    if not path.is_file():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        if isinstance(line, dict) and "step" in line:
            lines.append(line)
    return lines
