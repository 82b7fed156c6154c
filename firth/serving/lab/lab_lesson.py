"""Lessons of the lab: a TOML file each. A step shows a figure of one of the rooms, and asks what it will show before it does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firth.config import build, read_toml
from firth.errors import ConfigError

FOLDER = Path(__file__).parent / "lessons"
MOST_STEPS, MOST_BYTES = 60, 200_000
_NUMBERED = re.compile(r"^\d+-")


@dataclass(frozen=True, kw_only=True)
class LessonStep:
    """One figure with a sentence and, usually, a question about it."""

    says: str  # what the figure is, in one or two sentences
    room: str = ""  # whose figure it is; without one, the step is only text
    view: str = ""  # of the room
    figure: str = ""  # of the view; if not set, its only one
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the view, as in the address of the room
    runs: str = ""  # heading of the runs that suit, as in the lists of the lab: "Transformers"
    kinds: tuple[str, ...] = ()  # model.kind of the runs that suit, the best first; if not set, any
    needs_run: bool = True  # false: this view works without a run or vectors, although others of its room need them
    question: str = ""  # {word} stands for a fact of the view; without a question, the figure is shown at once
    options: tuple[str, ...] = ()  # the answers to choose from; if not set, they come from the figure's table
    answer: str = ""  # the right one of these options
    asks: str = ""  # column of the figure's table whose entries are the answers
    where: Mapping[str, str] = field(default_factory=dict)  # rows of the table that count: column → entry
    by: str = ""  # column whose largest number is the right answer; if not set, the last one
    smallest: bool = False  # the smallest number is right
    because: str = ""  # shown with the right answer

    def __post_init__(self) -> None:
        if bool(self.room) != bool(self.view):
            raise ConfigError("a step with a figure needs a room and a view")
        if not self.question:
            return
        if bool(self.options) == bool(self.asks):
            raise ConfigError(f'the question "{self.question[:40]}" needs either options, or asks: a column of the figure')
        if self.asks and not self.room:
            raise ConfigError(f'the question "{self.question[:40]}" asks about a figure; set room and view')
        if self.options and self.answer not in self.options:
            raise ConfigError(f'the answer "{self.answer}" is not among the options {", ".join(self.options)}')


@dataclass(frozen=True, kw_only=True)
class LabLesson:
    """A sequence of steps."""

    title: str  # its heading
    about: str  # one sentence
    read: str = ""  # page of the documentation that explains it: "attention.md"
    course: int = 0  # lesson of the course that goes on from here
    step: tuple[LessonStep, ...]  # in order

    def __post_init__(self) -> None:
        if not 1 <= len(self.step) <= MOST_STEPS:
            raise ConfigError(f"a lesson has {len(self.step)} steps; expected 1 to {MOST_STEPS}")


def lesson_files(own: Sequence[Path] = ()) -> dict[str, Path]:
    """Every lesson's file by its name, the shipped ones first. One's own replaces a shipped one of the same name."""
    return {_NUMBERED.sub("", path.stem): path for path in (*sorted(FOLDER.glob("*.toml")), *own)}


def read_lesson(path: Path) -> LabLesson:
    """The lesson in a file. Raises ConfigError if it is none."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    if size > MOST_BYTES:
        raise ConfigError(f"{path} has {size:,} bytes; a lesson has at most {MOST_BYTES:,}")
    try:
        return build(LabLesson, read_toml(path))
    except ConfigError as error:
        raise ConfigError(f"{path.name} is no lesson: {error}") from error


def answers(step: LessonStep, headings: Sequence[str], rows: Iterable[Sequence[str]], most: int = 8) -> tuple[list[str], str]:
    """The answers to choose from, and the right one, from the table of a figure.

    They are the entries of the column `asks` in the rows that `where` selects; the one with the largest number is right. Of many
    answers, `most` are left, the right one among them."""
    for column in (step.asks, step.by, *step.where):
        if column and column not in headings:
            raise ConfigError(f'the figure has no column "{column}"; it has {", ".join(headings)}')
    places = {heading: n for n, heading in reversed(list(enumerate(headings)))}  # the first column of that name
    asked, value = places[step.asks], places[step.by] if step.by else len(headings) - 1
    best: dict[str, float] = {}
    sign = -1 if step.smallest else 1
    for row in rows:
        if all(row[places[column]] == entry for column, entry in step.where.items()):
            number = sign * _number(row[value])
            best[row[asked]] = max(number, best.get(row[asked], number))
    if len(best) < 2:
        told = ", ".join(f"{column} {entry}" for column, entry in step.where.items())
        raise ConfigError(f"the figure has {len(best)} answers{f' where {told}' if told else ''}; a question needs two")
    right = max(best, key=lambda name: best[name])
    names, numbers = list(best), list(best.values())
    options = _some(names, right, most)
    ranked = numbers == sorted(numbers, reverse=True) or numbers == sorted(numbers)
    return (sorted(options) if ranked and len(options) > 2 else options), right  # the order must not give the answer away


def _some(names: list[str], right: str, most: int) -> list[str]:
    """At most `most` names, evenly spread, in their order, and always the right one."""
    if len(names) <= most:
        return names
    kept = {round(n * (len(names) - 1) / (most - 1)) for n in range(most)}
    place = names.index(right)
    if place not in kept:
        kept = kept - {min(kept, key=lambda n: abs(n - place))} | {place}
    return [names[n] for n in sorted(kept)]


def _number(cell: str) -> float:
    value = getattr(cell, "value", None)
    try:
        return float(cell.replace(",", "").rstrip("%")) if value is None else float(value)
    except ValueError:
        return float("-inf")
