"""What grading gave: one row per student, and the leaderboard of a competition."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from firth.experiments.assignments.assignment import Assignment
from firth.experiments.exercises.verdict import ExerciseVerdict
from firth.figures.figure import Table

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069]")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet computes


@dataclass(frozen=True)
class GradedAnswer:
    """The verdict on one function."""

    exercise: str
    points: float
    of: float
    verdict: ExerciseVerdict | None  # None if there is no file to check
    hidden: bool = False  # whether it is about the hidden inputs; those are checked if the public ones are right
    problem: str = ""  # why there is no verdict

    @property
    def passed(self) -> bool:
        return self.verdict is not None and self.verdict.passed

    @property
    def kind(self) -> str:
        return "missing" if self.verdict is None else self.verdict.kind

    @property
    def mistake(self) -> str | None:
        return self.verdict.mistake if self.verdict else None

    def text(self, show_inputs: bool) -> str:
        """The verdict as the student may read it: without hidden inputs, unless those are shown."""
        if self.verdict is None:
            return self.problem
        if not self.hidden or show_inputs:
            where = " for hidden inputs" if self.hidden else ""
            return plain_text(self.verdict.text().replace(": wrong.", f": wrong{where}.", 1))
        if self.passed:
            return f"{self.exercise}: right. It agrees with the oracle on all public and hidden inputs."
        told = self.verdict.without_inputs().message
        return f"{self.exercise}: wrong for hidden inputs, although right for the public ones. {told}"

    def facts(self, show_inputs: bool) -> dict[str, Any]:
        shown = self.verdict is not None and (show_inputs or not self.hidden)
        facts: dict[str, Any] = {"exercise": self.exercise, "points": self.points, "of": self.of, "passed": self.passed}
        facts |= {"kind": self.kind, "hidden": self.hidden, "mistake": self.mistake, "message": self.text(show_inputs)}
        return facts | ({"verdict": self.verdict.facts()} if shown and self.verdict else {})


@dataclass(frozen=True)
class StudentGrade:
    """The verdicts on one submission."""

    student: str
    answers: tuple[GradedAnswer, ...]
    problem: str = ""  # with the submission as a whole

    @property
    def points(self) -> float:
        return sum(one.points for one in self.answers)

    @property
    def of(self) -> float:
        return sum(one.of for one in self.answers)

    def verdict(self) -> str:
        """In a few words: what is wrong, with the named mistake if there is one."""
        if self.problem:
            return self.problem
        wrong = [one for one in self.answers if not one.passed]
        told = [f"{one.exercise}: {one.mistake or one.kind}{' (hidden)' if one.hidden else ''}" for one in wrong]
        return "; ".join(told) or "right"


@dataclass(frozen=True)
class EntryResult:
    """What an entry to a competition gave, or why it was refused."""

    student: str
    refused: str | None = None
    bits_per_character: float | None = None  # on the hidden text; None if it was refused
    perplexity_per_word: float | None = None  # the same, so that tokenizers can be compared: 2 to the power of bits per word
    parameters: int | None = None
    tokens: int | None = None  # read in training; None for a trained run
    seconds: float | None = None
    note: str = ""

    def text(self) -> str:
        if self.refused is not None:
            return f"refused: {plain_text(self.refused)}"
        cost = f", {self.tokens:,} tokens, {self.seconds:.1f} s" if self.tokens is not None and self.seconds is not None else ""
        note = f" ({self.note})" if self.note else ""
        return (
            f"{self.bits_per_character:.4f} bits per character, perplexity per word {self.perplexity_per_word:.1f}, "
            f"{self.parameters:,} parameters{cost}{note}"
        )


@dataclass(frozen=True)
class GradeReport:
    """The grades of a class. `.text()` has every verdict, `.tables()` one row per student, `.facts()` is plain data."""

    assignment: Assignment
    grades: tuple[StudentGrade, ...]
    entries: tuple[EntryResult, ...] = ()
    show_inputs: bool = False

    def text(self) -> str:
        """Every verdict in full."""
        parts = []
        for grade in self.grades if self.assignment.exercises else ():
            head = f"{grade.student}: {grade.points:g} of {grade.of:g} points"
            told = [grade.problem] if grade.problem else [one.text(self.show_inputs) for one in grade.answers]
            parts.append("\n".join([head, *(f"  {line}" for one in told for line in one.splitlines())]))
        parts += [f"{entry.student}: {entry.text()}" for entry in self.ranked]
        return "\n\n".join(parts)

    def tables(self) -> str:
        """The table of points and the leaderboard."""
        found = [self.grade_table()] if self.assignment.exercises else []
        found += [self.leaderboard()] if self.assignment.competition else []
        return "\n\n".join("\n".join(table.lines()) for table in found)

    def grade_table(self) -> Table:
        """One row per student."""
        names = [one.name for one in self.assignment.exercises]
        rows = [
            (one.student, f"{one.points:g}", *(f"{answer.points:g}" for answer in one.answers), one.verdict())
            for one in self.grades
        ]
        return Table(("student", "points", *names, "verdict"), rows)

    def leaderboard(self) -> Table:
        """The entries from the best to the worst; those that were refused come last."""
        rows = [("–" if entry.refused else str(rank), *_cells(entry)) for rank, entry in enumerate(self.ranked, 1)]
        headings = ("rank", "student", "bits per character", "perplexity per word", "parameters", "tokens", "seconds", "verdict")
        return Table(headings, rows)

    @property
    def ranked(self) -> list[EntryResult]:
        return sorted(
            self.entries, key=lambda one: (one.refused is not None, one.bits_per_character or 0, one.parameters or 0, one.student)
        )

    def csv(self) -> str:
        """One row per student with points, verdict and mistake of each exercise. No cell is a formula."""
        names = [one.name for one in self.assignment.exercises]
        kinds = [heading for name in names for heading in (name, f"{name} verdict", f"{name} mistake")]
        bits = ["bits per character", "competition"] if self.assignment.competition else []
        entries = {one.student: one for one in self.entries}
        rows = [
            [one.student, f"{one.points:g}", *_csv_cells(one), *_entry_cells(entries.get(one.student), bits)]
            for one in self.grades
        ]
        return Table(["student", "points", *kinds, *bits], [[_no_formula(cell) for cell in row] for row in rows]).csv()

    def facts(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
        students = [
            {
                "student": one.student,
                "points": one.points,
                "of": one.of,
                "problem": one.problem or None,
                "exercises": [answer.facts(self.show_inputs) for answer in one.answers],
            }
            for one in self.grades
        ]
        facts: dict[str, Any] = {"assignment": self.assignment.name, "students": students}
        return facts | ({"leaderboard": [vars(one) for one in self.ranked]} if self.assignment.competition else {})


def plain_text(text: str) -> str:
    """Without control characters, which could write over a terminal."""
    return _CONTROL.sub("�", text)


def _cells(entry: EntryResult) -> Sequence[str]:
    if entry.refused is not None:
        return (entry.student, "–", "–", "–", "–", "–", f"refused: {plain_text(entry.refused)}")
    tokens = "–" if entry.tokens is None else f"{entry.tokens:,}"
    seconds = "–" if entry.seconds is None else f"{entry.seconds:.1f}"
    values = (f"{entry.bits_per_character:.4f}", f"{entry.perplexity_per_word:.1f}", f"{entry.parameters:,}", tokens, seconds)
    return (entry.student, *values, f"measured{', ' + entry.note if entry.note else ''}")


def _csv_cells(grade: StudentGrade) -> list[str]:
    if grade.problem:
        return [cell for _ in grade.answers for cell in ("0", grade.problem, "")]
    return [cell for one in grade.answers for cell in (f"{one.points:g}", one.kind, one.mistake or "")]


def _entry_cells(entry: EntryResult | None, bits: Sequence[str]) -> list[str]:
    if not bits:
        return []
    if entry is None:
        return ["", ""]
    return ["", f"refused: {entry.refused}"] if entry.refused is not None else [f"{entry.bits_per_character:.4f}", "measured"]


def _no_formula(cell: str) -> str:
    return f"'{plain_text(cell)}" if cell.startswith(_FORMULA) else plain_text(cell)
