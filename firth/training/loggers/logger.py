"""What every logger of a training gets, and what it does."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from firth import files
from firth.config import read_toml
from firth.errors import CorruptFile
from firth.ideas import Idea
from firth.training.folder import RunFolder


@dataclass(frozen=True)
class LoggedRun:
    """The run that a logger hears of."""

    folder: RunFolder
    step: int  # at which this process begins, 0 for a new run
    logged: int = 0  # the last step in the log of earlier processes: later than `step` if one was killed before it saved

    @property
    def name(self) -> str:
        return self.folder.path.resolve().name

    @property
    def recipe(self) -> dict[str, Any]:
        """With all settings filled in."""
        return read_toml(self.folder.recipe)

    def known(self, kind: str) -> Mapping[str, str]:
        """What `remember` kept in the run folder; nothing if this run was never logged there."""
        known = self._known().get(kind, {})
        if not isinstance(known, dict) or not all(isinstance(value, str) for value in known.values()):
            raise self._damaged()
        return known

    def remember(self, kind: str, **facts: str) -> None:
        """Keep what a resumed training needs to go on where this one is logged."""
        files.write_text(self.folder.loggers, json.dumps({**self._known(), kind: facts}, indent=2) + "\n")

    def _known(self) -> dict[str, Any]:
        if not files.is_file(self.folder.loggers):
            return {}
        try:
            known = json.loads(self.folder.loggers.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            known = None
        if not isinstance(known, dict):
            raise self._damaged()
        return known

    def _damaged(self) -> CorruptFile:
        return CorruptFile(f"{self.folder.loggers} is damaged. Remove it, and the training is logged as a new run.")


class Logger(Idea, ABC):
    """Gets every line of log.jsonl. One object for each process that trains, made before its first step; of several processes
    that train together, only the first has loggers."""

    collected_in = "firth.training.loggers"
    package: ClassVar[str] = ""  # what it imports, by the name that pip knows it by

    @abstractmethod
    def __init__(self, run: LoggedRun) -> None:
        """Begin, or go on where an earlier process of the same run stopped."""

    @abstractmethod
    def write(self, line: Mapping[str, Any]) -> None:
        """A line of log.jsonl: its "step", "loss", …, and under "valid" the metrics of a validation."""

    def flush(self) -> None:
        """Called before a checkpoint is saved."""

    @abstractmethod
    def close(self, outcome: str) -> None:
        """The training ended: "finished", "interrupted", "diverged", "pruned" or "failed"."""


def numbers(line: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a line by their names: validation metrics under valid/, the rest under train/."""
    for group, table in (("train", line), ("valid", line.get("valid", {}))):
        for name, value in table.items():
            if name != "step" and isinstance(value, int | float):
                yield f"{group}/{name}", value
