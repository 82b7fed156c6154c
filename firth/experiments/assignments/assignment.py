"""What an assignment is: a TOML file with exercises, their points, and perhaps a competition."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import tomli_w

from firth.config import build, read_toml, to_table
from firth.errors import ConfigError, listed
from firth.experiments.exercises.catalog import find_exercise
from firth.experiments.exercises.exercise import Exercise

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")


@dataclass(frozen=True)
class GradedExercise:
    """An exercise of an assignment."""

    name: str
    points: float = 1.0  # for a function that is right for every hidden input

    def __post_init__(self) -> None:
        find_exercise(self.name)
        if not 0 < self.points <= 1000:
            raise ConfigError(f"the points of {self.name} are {self.points:g}; expected more than 0, at most 1,000")

    @property
    def exercise(self) -> Exercise:
        return find_exercise(self.name)


@dataclass(frozen=True)
class CompetitionBudget:
    """What an entry may use; None: no limit."""

    parameters: int | None = None  # of the model
    tokens: int | None = None  # read in training
    seconds: float | None = None  # of training; then the weights so far are measured

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and value <= 0:
                raise ConfigError(f"competition.budget.{name} is {value}; expected more than 0")

    def text(self) -> str:
        """In words: "at most 50,000 parameters and 60 seconds"."""
        limits = [
            f"{value:,} {name}" if isinstance(value, int) else f"{value:g} {name}"
            for name, value in vars(self).items()
            if value is not None
        ]
        return f"at most {listed(limits)}" if limits else "no budget"


@dataclass(frozen=True)
class Competition:
    """The best language model on a hidden text, under a budget."""

    hidden: str  # file with the hidden text
    train: str  # file with the training text, which is handed out
    budget: CompetitionBudget = CompetitionBudget()
    runs: bool = False  # whether a trained run may be handed in, instead of a recipe that is trained here
    own_text: bool = False  # whether a recipe may train on a text that is handed in with it
    allow_ideas: bool = False  # whether the file ideas.py that is handed in with a recipe is run: this is code, without limits
    overlap: float = 0.02  # largest share of the hidden text that a training text may contain
    minutes: float = 30.0  # for everything that is done with an entry
    memory: float = 8.0  # GiB, on Linux and a CPU
    device: Literal["cpu", "cuda"] = "cpu"

    def __post_init__(self) -> None:
        if not 0 <= self.overlap <= 1:
            raise ConfigError(f"competition.overlap is {self.overlap}; expected a share from 0 to 1")
        for name in ("minutes", "memory"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"competition.{name} is {getattr(self, name)}; expected more than 0")
        if self.runs and (self.budget.tokens or self.budget.seconds):
            raise ConfigError(
                "competition.runs is true, but a finished run cannot prove its tokens and seconds. Set runs = false, or limit "
                "parameters alone."
            )


@dataclass(frozen=True)
class Assignment:
    """One assignment of a course."""

    name: str
    exercises: tuple[GradedExercise, ...] = ()
    seconds: float = 10.0  # for all inputs of an exercise
    competition: Competition | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f'an assignment cannot be called "{self.name}". Use letters, digits, "-" and "_", such as week05.')
        if not self.exercises and self.competition is None:
            raise ConfigError(f"{self.name} has neither exercises nor a competition. Add one of them.")
        names = [one.name for one in self.exercises]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ConfigError(f"{twice} is listed twice. Remove one of them.")
        if not 0.1 <= self.seconds <= 3600:
            raise ConfigError(f"seconds is {self.seconds:g}; expected 0.1 to 3,600")

    @property
    def points(self) -> float:
        return sum(one.points for one in self.exercises)

    def toml(self) -> str:
        """The assignment as the text of its file."""
        table: dict[str, Any] = {"name": self.name, "seconds": self.seconds}
        table |= {"exercises": [to_table(one) for one in self.exercises]} if self.exercises else {}
        return tomli_w.dumps(table | ({"competition": to_table(self.competition)} if self.competition else {}))


def read_assignment(path: Path) -> Assignment:
    """The assignment in a TOML file."""
    table = read_toml(path)
    try:
        return build(Assignment, table)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.marked}") from error


def assignment_of(name: str, exercises: str, points: str | None) -> Assignment:
    """An assignment from lists of names and points, with commas between them."""
    names = [one.strip() for one in exercises.split(",")]
    values = [1.0] * len(names) if points is None else [_number(one) for one in points.split(",")]
    if len(values) != len(names):
        raise ConfigError(f"there are {len(names)} exercises, but {len(values)} points. Give one number for each exercise.")
    return Assignment(name, tuple(GradedExercise(*one) for one in zip(names, values, strict=True)))


def in_folder(assignment: Assignment, folder: Path) -> Assignment:
    """The same with the files of the competition in this folder."""
    one = assignment.competition
    if one is None:
        return assignment
    found = replace(one, hidden=str(folder / one.hidden), train=str(folder / one.train))
    return replace(assignment, competition=found)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f'"{text}" is no number of points. Write numbers with commas between them, such as 2,1.5.') from None
