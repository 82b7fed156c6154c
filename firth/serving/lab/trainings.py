"""The trainings of the workshop: a run or word vectors.

A training says which verb of firth makes it, and reads from its log how far it is. The log of either is lines with the keys
step, tokens, seconds and loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firth import files
from firth.training import log
from firth.training.folder import RunFolder

if TYPE_CHECKING:
    from firth.api import Recipe
    from firth.figures.training import Against

Lines = list[dict[str, Any]]


@dataclass(frozen=True)
class RunTraining:
    """`path` is what a training makes: here the folder of a run."""

    recipe: Recipe
    suffix = ""  # of the path
    counts: Against = "step"  # in what its progress is told, and its curve drawn

    def arguments(self, path: Path) -> list[str]:
        """The arguments of `firth`. A file that the verb reads is written first."""
        written = _recipe_of(path)
        files.write_text(written, self.recipe.toml())
        return ["train", str(written), "--out", str(path)]

    def log_file(self, path: Path) -> Path:
        return RunFolder(path).log

    def goal(self, lines: Lines) -> int | None:
        """The count at which it is done; None while that is unknown."""
        return self.recipe.training.steps if lines else None

    def ready(self, path: Path) -> bool:
        """True if there is something to show."""
        return RunFolder(path).model.is_file()

    def python(self, path: Path) -> str:
        """The same in Python."""
        return f"import firth\n\nfirth.train({str(_recipe_of(path))!r}, out={str(path)!r})\n"


@dataclass(frozen=True)
class VectorsTraining:
    corpus: str
    settings: Mapping[str, int] = field(default_factory=dict)  # of firth.vectors.train; True is an option without a value
    suffix = ".firth"
    counts: Against = "tokens"

    def arguments(self, path: Path) -> list[str]:
        return [*self.verb(path), "--log", str(self.log_file(path))]

    def verb(self, path: Path) -> list[str]:
        """The arguments that a user types after `firth`."""
        options = {f"--{name.replace('_', '-')}": value for name, value in self.settings.items()}
        told = [name if value is True else f"{name}={value}" for name, value in options.items()]
        return ["vectors", "train", self.corpus, "--out", str(path), *told]

    def log_file(self, path: Path) -> Path:
        return path.with_suffix(".jsonl")

    def goal(self, lines: Lines) -> int | None:
        goal = lines[-1].get("of") if lines else None
        return goal if isinstance(goal, int) else None

    def ready(self, path: Path) -> bool:
        return path.is_file()

    def python(self, path: Path) -> str:
        settings = "".join(f", {name}={value!r}" for name, value in self.settings.items())
        return f"import firth\n\nfirth.vectors.train({self.corpus!r}, out={str(path)!r}{settings})\n"


TrainingKind = RunTraining | VectorsTraining


def read_log(training: TrainingKind, path: Path) -> Lines:
    return log.read(training.log_file(path))


def _recipe_of(run: Path) -> Path:
    return run.with_suffix(".toml")
