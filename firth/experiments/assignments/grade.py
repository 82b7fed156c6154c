"""Grades a folder of submissions: every function with public and hidden inputs, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import firth
from firth.errors import ConfigError, FirthError
from firth.experiments.assignments.assignment import Assignment, GradedExercise, in_folder, read_assignment
from firth.experiments.assignments.contest import entries_of
from firth.experiments.assignments.keys import read_keys
from firth.experiments.assignments.make import ASSIGNMENT, KEYS
from firth.experiments.assignments.report import GradedAnswer, GradeReport, StudentGrade
from firth.experiments.assignments.submissions import BadSubmission, Submission, staged, submissions_in
from firth.experiments.exercises.check_file import checked
from firth.experiments.exercises.exercise import Case
from firth.experiments.exercises.judge import hidden_cases
from firth.experiments.exercises.student_process import Stopped, Walls, as_user
from firth.progress import Progress, silent

_NOBODY = "nobody"
_MOST_JOBS = 8


@dataclass(frozen=True)
class Grader:
    """All that is needed to grade one submission after another."""

    assignment: Assignment
    hidden: dict[str, list[Case]]
    walls: Walls

    def grade(self, submission: Submission) -> StudentGrade:
        with tempfile.TemporaryDirectory(prefix="firth-grade-") as folder:
            place = Path(folder)
            place.chmod(0o755)  # for another user
            try:
                file = staged(submission, self.assignment.name, place)
            except BadSubmission as error:
                return self._none(submission, str(error))
            try:
                answers = tuple(self._answer(file, one) for one in self.assignment.exercises)
            except (FirthError, Stopped):
                raise
            except Exception as error:  # one submission never stops the others
                return self._none(submission, f"It cannot be graded: {type(error).__name__} in firth.")
        return StudentGrade(submission.student, answers)

    def _none(self, submission: Submission, problem: str) -> StudentGrade:
        answers = tuple(GradedAnswer(one.name, 0.0, one.points, None, problem=problem) for one in self.assignment.exercises)
        return StudentGrade(submission.student, answers, problem)

    def _answer(self, file: Path, one: GradedExercise) -> GradedAnswer:
        """With public inputs in a process that never sees the hidden ones, so that the whole verdict on them may be told."""
        seconds = self.assignment.seconds
        public = checked(file, one.exercise, one.exercise.cases(), seconds, self.walls)
        if not public.passed:
            return GradedAnswer(one.name, 0.0, one.points, public)
        verdict = checked(file, one.exercise, self.hidden[one.name], seconds, self.walls)
        return GradedAnswer(one.name, one.points if verdict.passed else 0.0, one.points, verdict, hidden=True)


def grade_folder(
    submissions: Path,
    grader: Path,
    *,
    alone: bool = False,
    show_inputs: bool = False,
    jobs: int | None = None,
    progress: Progress = silent,
    notice: Any = lambda message: None,
) -> GradeReport:
    """Grade every submission in a folder by the grader's folder. `alone`: the folder is one submission."""
    assignment = read_assignment(grader / ASSIGNMENT)
    found = [Submission(submissions.name or "submission", submissions)] if alone else submissions_in(submissions)
    if not submissions.is_dir():
        raise ConfigError(f"{submissions} is not a folder. Give the folder with all submissions.")
    grades = [StudentGrade(one.student, ()) for one in found]
    if assignment.exercises:
        keys = read_keys(grader / KEYS, assignment)
        hidden = {one.name: hidden_cases(one.exercise, keys[one.name]) for one in assignment.exercises}
        walls = Walls(_protected(submissions, grader), _user(notice))
        grades = _graded(Grader(assignment, hidden, walls), found, jobs or min(_MOST_JOBS, os.cpu_count() or 1), progress)
    entries = entries_of(in_folder(assignment, grader.resolve()), found, progress)
    return GradeReport(assignment, tuple(grades), tuple(entries), show_inputs)


def _graded(grader: Grader, found: Sequence[Submission], jobs: int, progress: Progress) -> list[StudentGrade]:
    """In the order of `found`. Ctrl-C ends all processes."""
    grades: dict[int, StudentGrade] = {}
    progress("grading", 0, len(found))
    with ThreadPoolExecutor(jobs) as pool:
        try:
            waiting = {pool.submit(grader.grade, one): place for place, one in enumerate(found)}
            for done in as_completed(waiting):
                grades[waiting[done]] = done.result()
                progress("grading", len(grades), len(found))
        except BaseException:
            grader.walls.stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [grades[place] for place in range(len(found))]


def _protected(submissions: Path, grader: Path) -> dict[str, str]:
    return {
        str(Path(str(firth.__file__)).parent): "the files of firth, which have the solution",
        str(grader.resolve()): "the grader's folder",
        str(submissions.resolve()): "other submissions",
    }


def _user(notice: Any) -> str | None:
    """Another user for the students' processes, if this one is root; it has to be able to start them."""
    if os.name != "posix" or os.geteuid() != 0:
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="firth-grade-") as folder:
            Path(folder).chmod(0o755)
            command = [sys.executable, "-I", "-c", "import numpy"]
            subprocess.run(command, check=True, capture_output=True, timeout=300, cwd=folder, **as_user(_NOBODY))
    except (OSError, KeyError, subprocess.SubprocessError):
        notice(f"submissions run as root, because the user {_NOBODY} cannot start {sys.executable}")
        return None
    return _NOBODY
