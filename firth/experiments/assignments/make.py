"""Writes the folder of the students and, apart from it, that of the grader."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from firth.errors import ConfigError, DataError, option
from firth.experiments.assignments import gradescope
from firth.experiments.assignments.assignment import Assignment, in_folder
from firth.experiments.assignments.instructions import readme, stubs, train_file
from firth.experiments.assignments.keys import keys_json, keys_of
from firth.experiments.assignments.notebooks import nbgrader_notebook, otter_notebook, otter_test, plain_notebook
from firth.experiments.assignments.overlap import expect_apart
from firth.files import exists, is_file, replacing, write_text

Form = Literal["py", "notebook", "nbgrader", "otter"]
HIDDEN_TEXT, ASSIGNMENT, KEYS = "hidden.txt", "assignment.toml", "keys.json"


@dataclass(frozen=True)
class MadeAssignment:
    """The folders of an assignment."""

    assignment: Assignment
    student: Path  # to hand out
    grader: Path  # for the teacher alone
    file: str  # which students hand in

    def facts(self) -> dict[str, object]:
        """As plain data."""
        return {
            "assignment": self.assignment.name,
            "student": str(self.student),
            "grader": str(self.grader),
            "file": self.file,
            "points": self.assignment.points,
        }


def make_assignment(
    assignment: Assignment, secret: str, out: Path, form: Form = "py", torch: bool = False, beside: Path = Path()
) -> MadeAssignment:
    """Write an assignment into the new folder `out`. `beside`: the folder of the texts of its competition."""
    if form not in ("py", "notebook", "nbgrader", "otter"):
        raise ConfigError(f'form is "{form}"; choose py, notebook, nbgrader or otter')
    if exists(out) and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} is not an empty folder. Choose another {option('out')}.")
    keys = keys_of(assignment, secret)
    texts = _texts(in_folder(assignment, beside))  # errors before anything is written
    file = f"{assignment.name}.{'py' if form == 'py' else 'ipynb'}"
    made = MadeAssignment(assignment, out / "student", out / "grader", file)
    if assignment.exercises:
        _write_exercises(made, keys, form, torch)
    write_text(made.student / "README.md", readme(assignment, file))
    _write_grader(made, keys, texts)
    return made


def _write_exercises(made: MadeAssignment, keys: Mapping[str, str], form: Form, torch: bool) -> None:
    assignment, place = made.assignment, made.student / made.file
    match form:
        case "py":
            write_text(place, stubs(assignment, torch))
        case "notebook":
            write_text(place, plain_notebook(assignment, torch))
        case "nbgrader":
            write_text(place, nbgrader_notebook(assignment, torch, None))
            source = made.grader / "nbgrader" / "source" / assignment.name / made.file
            write_text(source, nbgrader_notebook(assignment, torch, keys))
        case "otter":
            write_text(place, otter_notebook(assignment, torch))
            for one in assignment.exercises:
                write_text(made.student / "tests" / f"{one.name}.py", otter_test(one, None))
                write_text(made.grader / "otter" / "tests" / f"{one.name}.py", otter_test(one, keys[one.name]))


def _write_grader(made: MadeAssignment, keys: Mapping[str, str], texts: Mapping[str, Path]) -> None:
    assignment = made.assignment
    if assignment.competition is not None:
        named = replace(assignment.competition, hidden=HIDDEN_TEXT, train=train_file())
        assignment = replace(assignment, competition=named)
        _copy(texts["train"], made.student / train_file())
        _copy(texts["train"], made.grader / train_file())
        _copy(texts["hidden"], made.grader / HIDDEN_TEXT)
    write_text(made.grader / ASSIGNMENT, assignment.toml())
    write_text(made.grader / KEYS, keys_json(keys))
    (made.grader / KEYS).chmod(0o600)
    for name, text in gradescope.files(assignment).items():
        write_text(made.grader / name, text)
        (made.grader / name).chmod(0o755)


def _texts(assignment: Assignment) -> dict[str, Path]:
    """The files of the competition. Its own training text must not contain the hidden one."""
    one = assignment.competition
    if one is None:
        return {}
    paths = {"train": Path(one.train), "hidden": Path(one.hidden)}
    for name, path in paths.items():
        if not is_file(path):
            raise DataError(f"competition.{name} is {path}, which is not a file. Give the path of a text beside the assignment.")
    expect_apart(paths["train"], paths["hidden"], one.overlap)
    return paths


def _copy(source: Path, path: Path) -> None:
    with replacing(path) as temporary:
        shutil.copyfile(source, temporary)
