"""Find run folders below a folder, whatever its size."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from firth.errors import RunError
from firth.files import is_folder
from firth.progress import Progress, silent
from firth.training.folder import RunFolder

_MOST = 1_000_000  # files and folders that are looked at
_SKIPPED = {"__pycache__", "node_modules"}  # besides hidden folders
_PARTS = {"recipe.toml", "model.safetensors", "log.jsonl"}  # any of these, beside `format`, makes a folder a run


class RunSearch:
    """The run folders below some folders, in the order of their names. Links are followed, each folder is searched once, and
    after a million files and folders the search ends; `notes` says so, and which folders could not be read."""

    def __init__(self, folders: Sequence[str | Path], progress: Progress = silent) -> None:
        self._folders = [Path(folder).expanduser() for folder in folders]
        self._progress = progress
        self._seen: set[tuple[int, int]] = set()
        self._looked_at = 0
        self.notes: list[str] = []
        for folder in self._folders:
            if not is_folder(folder):
                raise RunError(f"{folder} is not a folder; give folders that contain runs")

    def __iter__(self) -> Iterator[Path]:
        left = [*reversed(self._folders)]
        while left and self._looked_at < _MOST:
            place = left.pop()
            try:
                inside = self._entries(place)
            except OSError as error:
                self.notes.append(f"{place} could not be searched: {error.strerror or error}")
                continue
            names = {entry.name for entry in inside}
            own: set[str] = set()
            if "format" in names and names & _PARTS and RunFolder(place).exists():
                yield place
                own = {part.name for part in vars(RunFolder(place)).values() if part != place}
            left += [place / entry.name for entry in reversed(inside) if _searched(entry) and entry.name not in own]
        if left:
            self.notes.append(f"the search ended after {_MOST:,} files and folders; give folders further down")

    def _entries(self, place: Path) -> list[os.DirEntry[str]]:
        """What is in a folder, by name; nothing if it has been searched before."""
        status = os.stat(place)
        if (status.st_dev, status.st_ino) in self._seen:
            return []
        self._seen.add((status.st_dev, status.st_ino))
        inside: list[os.DirEntry[str]] = []
        with os.scandir(place) as entries:
            for entry in entries:
                self._looked_at += 1
                if self._looked_at >= _MOST:
                    break
                inside.append(entry)
        self._progress("searching", self._looked_at, 0)
        return sorted(inside, key=lambda entry: entry.name)


def _searched(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir() and not entry.name.startswith(".") and entry.name not in _SKIPPED
    except OSError:  # a link in a circle
        return False
