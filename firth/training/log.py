"""log.jsonl: one JSON object per line. On resume it is truncated to the resumed step, so no step appears twice.

The loggers that `training.log_to` names get the same lines.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from firth import files
from firth.errors import FirthError
from firth.training.folder import RunFolder
from firth.training.history import outcome_of
from firth.training.loggers import LOGGERS, LoggedRun, Logger


class Log:
    def __init__(self, folder: RunFolder, step: int, log_to: Sequence[str] = ()) -> None:
        self._path, lines = folder.log, read(folder.log)
        self._loggers = _opened(log_to, LoggedRun(folder, step, lines[-1]["step"] if lines else 0))
        kept = [line for line in lines if line["step"] <= step]
        files.write_text(self._path, "".join(json.dumps(line) + "\n" for line in kept))
        with files.writing(self._path):
            self._file = self._path.open("a", encoding="utf-8")

    def write(self, line: dict[str, Any]) -> None:
        with files.writing(self._path):
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        for logger in self._loggers:
            logger.write(line)

    def sync(self) -> None:
        """Flush to disk. Called before a checkpoint is saved, so that a power cut never leaves the log behind the checkpoint."""
        with files.writing(self._path):
            os.fsync(self._file.fileno())
        for logger in self._loggers:
            logger.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with contextlib.suppress(OSError):  # closing retries a failed write, which was already reported
            self._file.close()
        _close(self._loggers, error)


class NoLog:
    """The log of a process that writes none."""

    def write(self, line: dict[str, Any]) -> None: ...

    def sync(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


def _opened(kinds: Sequence[str], run: LoggedRun) -> list[Logger]:
    opened: list[Logger] = []
    try:
        for kind in kinds:
            opened.append(LOGGERS[kind](run))
    except BaseException as error:
        _close(opened, error)
        raise
    return opened


def _close(loggers: Sequence[Logger], error: BaseException | None) -> None:
    """All of them, even if one fails: the training has ended, and its run is saved."""
    for logger in loggers:
        try:
            logger.close(outcome_of(error))
        except (OSError, FirthError) as failure:
            warnings.warn(f"{logger.title()} could not be closed: {failure}", stacklevel=3)


def read(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a log; a last line that was cut off when the process was killed is dropped."""
    if not path.is_file():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):  # also a number of thousands of digits
            continue
        if isinstance(line, dict) and type(line.get("step")) is int:
            lines.append(line)
    return lines
