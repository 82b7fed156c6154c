"""`firth check`: the functions of a file against their exercises, each in a process of its own."""

from __future__ import annotations

import ast
import contextlib
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from firth.errors import DataError, did_you_mean
from firth.experiments.exercises.catalog import EXERCISES, NAMES, find_exercise
from firth.experiments.exercises.child import NotPython, parts
from firth.experiments.exercises.exercise import Case, Exercise
from firth.experiments.exercises.judge import arguments, judged, raised_failure
from firth.experiments.exercises.student_process import Ran, Walls, run
from firth.experiments.exercises.verdict import ExerciseVerdict

SECONDS = 10.0
_LARGEST = 1_000_000  # bytes of a file


def check_file(path: Path, exercise: str | None = None, seconds: float = SECONDS) -> list[ExerciseVerdict]:
    """Check one exercise of the file, or every function in it that has the name of one."""
    try:
        source = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    if len(source) > _LARGEST:
        raise DataError(f"{path} has {len(source):,} bytes; a file with functions to check has at most {_LARGEST:,}.")
    asked: tuple[Exercise, ...] = () if exercise is None else (find_exercise(exercise),)
    try:
        defined = _defined(source, path)
    except NotPython as error:
        return [ExerciseVerdict(asked[0].name if asked else path.name, "syntax", f"{path.name} {error}.")]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        reason = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
        name = asked[0].name if asked else path.name
        return [ExerciseVerdict(name, "syntax", f"{path.name} is not valid Python{line}: {reason}.")]
    if not asked:
        asked = tuple(one for one in EXERCISES if one.name in defined)
    if not asked:
        near = next((advice for name in defined if (advice := did_you_mean(name, NAMES, listed=False))), "")
        raise DataError(f"{path} has no function with the name of an exercise.{near} `firth exercise` lists the exercises.")
    return [checked(path, one, one.cases(), seconds) for one in asked]


def _defined(source: bytes, path: Path) -> list[str]:
    """The names that the file defines at its top level, by def or by assignment. A cell of a notebook that is not Python has
    none."""
    names = []
    for _, text in parts(source, path.name):
        with contextlib.suppress(SyntaxError) if path.suffix == ".ipynb" else contextlib.nullcontext():
            names += _defined_in(text)
    return names


def _defined_in(text: str) -> list[str]:
    names = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return names


def checked(path: Path, exercise: Exercise, cases: Sequence[Case], seconds: float, walls: Walls | None = None) -> ExerciseVerdict:
    """The verdict on the function of a file that has the name of the exercise. `walls`: for a file of a stranger."""
    ran = run(path, exercise.name, cases, seconds, walls)
    if ran.stopped is not None:
        return _stopped(path, exercise, ran)
    if len(ran.outcomes) == len(cases):
        return judged(exercise, ran.outcomes, ran.printed, cases)
    case = arguments(exercise, cases[len(ran.outcomes)])
    if ran.timed_out:
        message = f"It did not finish within {seconds:g} seconds."
        return ExerciseVerdict(exercise.name, "timeout", message, len(cases), arguments=case, printed=ran.printed)
    how = f"exit status {ran.code}" if ran.code >= 0 else signal.Signals(-ran.code).name
    message = f"It ended the process ({how})."
    return ExerciseVerdict(exercise.name, "crash", message, len(cases), arguments=case, printed=ran.printed)


def _stopped(path: Path, exercise: Exercise, ran: Ran) -> ExerciseVerdict:
    """The process could not call the function, or the function asked for what it may not have."""
    stopped = ran.stopped or {}
    if "syntax" in stopped:
        return ExerciseVerdict(exercise.name, "syntax", f"{path.name} {stopped['syntax']}.", printed=ran.printed)
    if "forbidden" in stopped:
        message = _forbidden(stopped["forbidden"])
        return ExerciseVerdict(exercise.name, "forbidden", message, printed=ran.printed)
    if "missing" in stopped:
        message = f"{path.name} defines no function {exercise.name}."
        return ExerciseVerdict(exercise.name, "missing", message, printed=ran.printed)
    failure = raised_failure(stopped["raised"])
    message = f"{path.name} cannot be run. {failure.message}"
    return ExerciseVerdict(
        exercise.name, failure.kind, message, traceback=tuple(stopped["raised"]["frames"]), printed=ran.printed
    )


def _forbidden(asked: Mapping[str, str]) -> str:
    if "imports" in asked:
        return f"It imports {asked['imports']}, which has the solution; write the function without firth."
    return f"It tries to read {asked['reads']}."
