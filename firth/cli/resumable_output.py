"""A file that grows line by line under another name, and gets its own when it is whole."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from firth import files
from firth.errors import ConfigError, RunError


class Growing:
    """`OUT.part` while it is written, beside `OUT.part.json`, which says how it was made; with `resume`, the lines that are
    whole stay and `lines` counts them. On an error or an interruption both files stay, to go on from; unless nothing is written
    yet."""

    def __init__(self, path: Path, settings: dict[str, Any], resume: bool) -> None:
        self.path = path
        self.part, self.facts = path.with_name(f"{path.name}.part"), path.with_name(f"{path.name}.part.json")
        if path.exists():
            raise RunError(f"{path} exists already; remove it, or choose another --out")
        begun = self.part.exists() and self.facts.exists()
        if begun and not resume:
            raise RunError(f"{self.part} holds the beginning of it; add --resume to go on, or remove that file")
        self.lines = 0
        with files.writing(self.part):
            path.parent.mkdir(parents=True, exist_ok=True)
            if begun:
                self._check(settings)
                self.lines = self._whole()
            else:
                files.write_text(self.facts, json.dumps(settings, indent=2))
                self.part.write_bytes(b"")
            self._file = self.part.open("a", encoding="utf-8", newline="\n")

    def write(self, text: str) -> None:
        with files.writing(self.part):
            self._file.write(text)

    def flush(self) -> None:
        with files.writing(self.part):
            self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with files.writing(self.part):
            self._file.close()
            if error is None:
                self.part.replace(self.path)
            elif self.part.stat().st_size:
                return
            else:
                self.part.unlink()
            self.facts.unlink(missing_ok=True)

    def _check(self, settings: dict[str, Any]) -> None:
        before = json.loads(self.facts.read_text(encoding="utf-8"))
        for name in sorted(before.keys() | settings.keys()):
            if before.get(name) != settings.get(name):
                raise ConfigError(
                    f"{self.part} was begun with {name} = {before.get(name)!r}, now it is {settings.get(name)!r}; "
                    "go on as it was begun, or remove that file"
                )

    def _whole(self) -> int:
        """Cut off a line that was interrupted, and count the others."""
        with self.part.open("r+b") as file:
            count = whole = 0
            for line in file:
                if line.endswith(b"\n"):
                    count, whole = count + 1, whole + len(line)
            file.truncate(whole)
        return count
