"""log.jsonl: one JSON object per line. On resume it is truncated to the resumed step, so no step appears twice.

With `training.tensorboard` the same numbers also go to TensorBoard event files; TensorBoard is imported only then.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from firth import files
from firth.errors import ConfigError


class Log:
    def __init__(self, path: Path, step: int, tensorboard: Path | None = None) -> None:
        kept = [line for line in read(path) if line["step"] <= step]
        files.write_text(path, "".join(json.dumps(line) + "\n" for line in kept))
        self._path = path
        with files.writing(path):
            self._file = path.open("a", encoding="utf-8")
        self._events = None if tensorboard is None else Events(tensorboard, step)

    def write(self, line: dict[str, Any]) -> None:
        with files.writing(self._path):
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        if self._events is not None:
            self._events.write(line)

    def sync(self) -> None:
        """Flush to disk. Called before a checkpoint is saved, so that a power cut never leaves the log behind the checkpoint."""
        with files.writing(self._path):
            os.fsync(self._file.fileno())
        if self._events is not None:
            self._events.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with contextlib.suppress(OSError):  # closing retries a failed write, which was already reported
            self._file.close()
        if self._events is not None:
            self._events.close()


class NoLog:
    """The log of a process that writes none."""

    def write(self, line: dict[str, Any]) -> None: ...

    def sync(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class Events:
    """The numbers of log.jsonl for `tensorboard --logdir RUN`: `valid` under valid/, the rest under train/."""

    def __init__(self, folder: Path, step: int) -> None:
        expect_tensorboard()
        from torch.utils.tensorboard import SummaryWriter

        self._folder = folder
        with files.writing(folder):  # purge: drop events an interrupted run wrote after the resumed step
            self._writer = SummaryWriter(str(folder), purge_step=step + 1 if step else None)

    def write(self, line: Mapping[str, Any]) -> None:
        with files.writing(self._folder):
            for name, value in _numbers(line):
                self._writer.add_scalar(name, value, line["step"])

    def flush(self) -> None:
        with files.writing(self._folder):
            self._writer.flush()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._writer.close()


def expect_tensorboard() -> None:
    """Raise ConfigError if tensorboard is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        raise ConfigError("training.tensorboard is true, but tensorboard is not installed; run `pip install tensorboard`")


def _numbers(line: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for group, table in (("train", line), ("valid", line.get("valid", {}))):
        for name, value in table.items():
            if name != "step" and isinstance(value, int | float):
                yield f"{group}/{name}", value


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
