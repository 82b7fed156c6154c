"""An output file that is written line by line under a temporary name and renamed when it is complete."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from firth import files
from firth.errors import ConfigError, RunError
from firth.files import exists


class ResumableOutput:
    """Writes to `OUT.part`; `OUT.part.json` records the settings. With `resume`, complete lines are kept and `lines` counts them.
    After an error or an interruption both files stay, so that it can be resumed, unless nothing was written yet."""

    def __init__(self, path: Path, settings: dict[str, Any], resume: bool) -> None:
        self.path = path
        self.part, self.facts = path.with_name(f"{path.name}.part"), path.with_name(f"{path.name}.part.json")
        if exists(path):
            raise RunError(f"{path} already exists; remove it or choose another --out")
        started = self.part.exists() and self.facts.exists()
        if started and not resume:
            raise RunError(f"{self.part} holds unfinished output; add --resume to continue, or remove that file")
        self.lines = 0
        with files.writing(self.part):
            path.parent.mkdir(parents=True, exist_ok=True)
            if started:
                self._check(settings)
                self.lines = self._keep_complete_lines()
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
        try:
            before = dict(json.loads(self.facts.read_text(encoding="utf-8")))
        except (ValueError, TypeError, RecursionError) as error:
            raise RunError(f"{self.facts} is damaged ({error}). Remove it and {self.part.name} to start again") from error
        for name in sorted(before.keys() | settings.keys()):
            if before.get(name) != settings.get(name):
                raise ConfigError(
                    f"{self.part} was started with {name} = {before.get(name)!r}, but now it is {settings.get(name)!r}; "
                    "use the same settings or remove that file"
                )

    def _keep_complete_lines(self) -> int:
        """Remove a partial last line; return the number of complete lines."""
        with self.part.open("r+b") as file:
            count = size = 0
            for line in file:
                if line.endswith(b"\n"):
                    count, size = count + 1, size + len(line)
            file.truncate(size)
        return count
