"""An assignment as a notebook: plain, for nbgrader, and for otter-grader."""

from __future__ import annotations

import json
import pprint
import textwrap
from collections.abc import Mapping
from typing import Any

from firth.experiments.assignments.assignment import Assignment, GradedExercise
from firth.experiments.assignments.instructions import stub_parts

Cell = dict[str, Any]
_STUB = "raise NotImplementedError"
_CLEARED = "# YOUR CODE HERE\nraise NotImplementedError()"  # what nbgrader puts in place of a solution


def plain_notebook(assignment: Assignment, torch: bool) -> str:
    """A cell for each function, and one that checks it."""
    cells = [_markdown(f"{assignment.name}-intro", _title(assignment)), _code("imports", _imports(assignment, torch))]
    for one in assignment.exercises:
        cells += [
            _markdown(one.name, _task(one)),
            _code(f"{one.name}-solution", stub_parts(one.name, torch)[1]),
            _code(f"{one.name}-check", f"firth.check({one.name})"),
        ]
    return _notebook(cells)


def nbgrader_notebook(assignment: Assignment, torch: bool, keys: Mapping[str, str] | None) -> str:
    """With nbgrader's metadata: with `keys` the source, in which the hidden tests stand; without them, what nbgrader releases."""
    imports = _code("imports", _imports(assignment, torch))
    cells = [_locked(_markdown(f"{assignment.name}-intro", _title(assignment))), _locked(imports)]
    for one in assignment.exercises:
        cells += [
            _locked(_markdown(one.name, _task(one))),
            _graded(_code(f"{one.name}-solution", _solution(one, torch, keys is not None)), solution=True),
            _graded(_code(f"{one.name}-test", _tests(one, keys)), points=one.points),
        ]
    return _notebook(cells)


def otter_notebook(assignment: Assignment, torch: bool) -> str:
    """With the cells of otter-grader, which finds the tests in the folder beside it."""
    name = f"{assignment.name}.ipynb"
    start = f'import otter\n\ngrader = otter.Notebook("{name}")'
    cells = [_code("otter", start), _markdown(f"{assignment.name}-intro", _title(assignment))]
    cells.append(_code("imports", _imports(assignment, torch)))
    for one in assignment.exercises:
        cells += [
            _markdown(one.name, _task(one)),
            _code(f"{one.name}-solution", stub_parts(one.name, torch)[1]),
            _code(f"{one.name}-check", f'grader.check("{one.name}")'),
        ]
    return _notebook(cells)


def otter_test(one: GradedExercise, key: str | None) -> str:
    """The test file of an exercise in otter's OK format: public inputs for no points and, with a key, hidden ones for all."""
    public = {"code": _doctest(_PUBLIC.format(name=one.name)), "hidden": False, "locked": False, "points": 0}
    hidden = {"code": _doctest(_HIDDEN.format(name=one.name, key=key)), "hidden": True, "locked": False, "points": one.points}
    if key is None:
        public["points"] = one.points
    suite = {
        "cases": [public] if key is None else [public, hidden],
        "scored": True,
        "setup": "",
        "teardown": "",
        "type": "doctest",
    }
    spec = pprint.pformat({"name": one.name, "points": None, "suites": [suite]}, sort_dicts=False, width=100)
    return f"OK_FORMAT = True\n\ntest = {spec}\n"


_PUBLIC = 'import firth\nverdict = firth.check({name}, "{name}")\nassert verdict.passed, verdict'
_HIDDEN = 'import firth\nverdict = firth.check({name}, "{name}", key="{key}")\nassert verdict.passed, verdict'


def _doctest(code: str) -> str:
    return "\n".join(f">>> {line}" for line in code.splitlines())


def _tests(one: GradedExercise, keys: Mapping[str, str] | None) -> str:
    public = _PUBLIC.format(name=one.name)
    if keys is None:
        return public
    hidden = _HIDDEN.format(name=one.name, key=keys[one.name])
    return f"{public}\n### BEGIN HIDDEN TESTS\n{hidden}\n### END HIDDEN TESTS"


def _solution(one: GradedExercise, torch: bool, source: bool) -> str:
    inner = f"### BEGIN SOLUTION\n{_STUB}\n### END SOLUTION" if source else _CLEARED
    return stub_parts(one.name, torch)[1].rstrip().removesuffix(_STUB).rstrip(" ") + textwrap.indent(inner, "    ")


def _imports(assignment: Assignment, torch: bool) -> str:
    needed = {stub_parts(one.name, torch)[0] for one in assignment.exercises} - {""}
    return "\n".join([*sorted(needed), "", "import firth"]).strip()


def _title(assignment: Assignment) -> str:
    return (
        f"# {assignment.name}\n\nWrite the functions below: replace the last line of each stub. Do not change their names. You "
        "are graded with hidden inputs, which are longer than the public ones of the checks."
    )


def _task(one: GradedExercise) -> str:
    equation = "\n".join(f"    {line.strip()}" for line in one.exercise.equation.splitlines())
    points = "1 point" if one.points == 1 else f"{one.points:g} points"
    return f"## {one.name}: {one.exercise.about} ({points})\n\n{equation}"


def _markdown(name: str, text: str) -> Cell:
    return {"cell_type": "markdown", "id": _id(name), "metadata": {}, "source": _lines(text)}


def _code(name: str, text: str) -> Cell:
    plain: Cell = {"cell_type": "code", "execution_count": None, "id": _id(name), "metadata": {}, "outputs": []}
    return {**plain, "source": _lines(text.rstrip("\n"))}


def _id(name: str) -> str:
    return name.replace("_", "-")


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _locked(cell: Cell) -> Cell:
    return _graded(cell, locked=True)


def _graded(cell: Cell, *, solution: bool = False, points: float | None = None, locked: bool = False) -> Cell:
    """With nbgrader's metadata, version 3 of their schema."""
    facts: dict[str, Any] = {"grade": points is not None, "grade_id": cell["id"], "locked": locked or points is not None}
    facts |= {"schema_version": 3, "solution": solution, "task": False}
    return {**cell, "metadata": {"nbgrader": facts | ({} if points is None else {"points": points})}}


def _notebook(cells: list[Cell]) -> str:
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}}}
    return json.dumps({**notebook, "nbformat": 4, "nbformat_minor": 5}, indent=1, ensure_ascii=False) + "\n"
