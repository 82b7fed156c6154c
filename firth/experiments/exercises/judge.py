"""Compares what a student's function gave with the oracle, and, if it differs, with every known wrong program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from firth.errors import listed
from firth.experiments.exercises.child import LARGEST, encoded
from firth.experiments.exercises.exercise import Case, Exercise, WrongProgram, computed, size
from firth.experiments.exercises.verdict import ExerciseVerdict, Kind

_LARGEST_INTEGER = 1 << 1000  # a larger one is no float64
Outcome = Mapping[str, Any]  # of one call, see child.py


class Failure(NamedTuple):
    kind: Kind
    message: str


class _Failed(NamedTuple):
    """One input that failed."""

    place: int
    size: int
    failure: Failure


def judged(
    exercise: Exercise, outcomes: Sequence[Outcome], printed: str = "", cases: Sequence[Case] | None = None
) -> ExerciseVerdict:
    """The verdict on the outcomes of all `cases` of an exercise, by default the public ones."""
    cases = exercise.cases() if cases is None else cases
    expected = [exercise.expected(case) for case in cases]
    failed = []
    for place, (case, right, outcome) in enumerate(zip(cases, expected, outcomes, strict=True)):
        failure = _failure(exercise, right, outcome)
        if failure is not None:
            failed.append(_Failed(place, size(case), failure))
    if not failed:
        return ExerciseVerdict(exercise.name, "right", f"It agrees with the oracle on {len(cases)} inputs.", len(cases))
    place, _, failure = min(failed, key=lambda one: (one.size, one.place))
    mistake = _mistake(exercise, cases, outcomes)
    given = outcomes[place]
    return ExerciseVerdict(
        exercise.name,
        failure.kind,
        failure.message if mistake is None else f"Your result equals {mistake}.",
        len(cases),
        mistake,
        arguments(exercise, cases[place]),
        shown(given["value"]) if "value" in given else None,
        expected[place],
        tuple(given["raised"]["frames"]) if "raised" in given else (),
        printed,
    )


def hidden_cases(exercise: Exercise, key: str) -> list[Case]:
    """The inputs that follow from a key, see Exercise.hidden."""

    def tells_apart(wrong: WrongProgram, case: Case) -> bool:
        return difference(exercise, exercise.expected(case), encoded(computed(wrong.program, case))) is not None

    return exercise.hidden(key, tells_apart)


def arguments(exercise: Exercise, case: Case) -> dict[str, Any]:
    return dict(zip(exercise.parameters, case, strict=True))


def _mistake(exercise: Exercise, cases: Sequence[Case], outcomes: Sequence[Outcome]) -> str | None:
    """The wrong program that gives the same for every input."""
    if not all("value" in outcome for outcome in outcomes):
        return None
    for wrong in exercise.wrong:
        if all(
            difference(exercise, computed(wrong.program, case), outcome["value"]) is None
            for case, outcome in zip(cases, outcomes, strict=True)
        ):
            return wrong.sentence
    return None


def _failure(exercise: Exercise, right: Any, outcome: Outcome) -> Failure | None:
    if "raised" in outcome:
        return raised_failure(outcome["raised"])
    if "changed" in outcome:
        name = list(exercise.parameters)[outcome["changed"]]
        return Failure("changed", f"It changes its argument {name} in place; work on a copy.")
    return difference(exercise, right, outcome["value"])


def raised_failure(raised: Mapping[str, Any]) -> Failure:
    if raised["memory"]:
        return Failure("memory", "It needs more memory than the check allows.")
    return Failure(
        "exception", f"It raises {raised['type']}{': ' if raised['message'] else ''}{raised['message']}".rstrip(".") + "."
    )


def difference(exercise: Exercise, expected: Any, given: Any) -> Failure | None:
    """Why an encoded value is not the expected one; None if it is."""
    names = list(exercise.returns)
    if not isinstance(expected, tuple):
        return _differs(names[0], expected, given, exercise.tolerance)
    if not isinstance(given, list) or len(given) != len(expected):
        return Failure("type", f"It returns {_described(given)}; expected a tuple of {len(names)}: {listed(names)}.")
    pairs = zip(names, expected, given, strict=True)
    return next((found for name, one, other in pairs if (found := _differs(name, one, other, exercise.tolerance))), None)


def _differs(name: str, expected: Any, given: Any, tolerance: float) -> Failure | None:
    if isinstance(expected, list):
        if not isinstance(given, list):
            return Failure("type", f"It returns {_described(given)} for {name}; expected a list.")
        return (
            None if [_scalar(one) for one in given] == expected else Failure("value", f"{name} is not what the equation gives.")
        )
    if isinstance(expected, np.ndarray):
        return _array_differs(name, expected, given, tolerance)
    number = _scalar(given)
    if isinstance(number, bool) or not isinstance(number, int | float):
        return Failure("type", f"It returns {_described(given)} for {name}; expected a number.")
    if isinstance(number, int) and abs(number) > _LARGEST_INTEGER:
        return Failure("value", f"{name} is a number of {number.bit_length():,} bits.")
    return _values_differ(name, np.array(expected), np.array(number, np.float64), tolerance)


def _array_differs(name: str, expected: Any, given: Any, tolerance: float) -> Failure | None:
    if not isinstance(given, dict) or "shape" not in given:
        return Failure("type", f"It returns {_described(given)} for {name}; expected an array of shape {expected.shape}.")
    if tuple(given["shape"]) != expected.shape:
        return Failure("shape", f"{name} has the shape {tuple(given['shape'])}; expected {expected.shape}.")
    if given["values"] is None or given["dtype"] == "bool":
        return Failure("type", f"{name} has the type {given['dtype']}; expected float64.")
    return _values_differ(name, expected, np.array(given["values"], np.float64).reshape(expected.shape), tolerance)


def _values_differ(name: str, expected: Any, given: Any, tolerance: float) -> Failure | None:
    if np.isclose(given, expected, rtol=tolerance, atol=tolerance, equal_nan=True).all():
        return None
    if np.isnan(given).any() and not np.isnan(expected).any():
        return Failure("nan", f"{name} has {int(np.isnan(given).sum())} NaN.")
    return Failure("value", f"{name} is not what the equation gives.")


def _scalar(given: Any) -> Any:
    """A number, also from an array without axes."""
    return given["values"][0] if isinstance(given, dict) and given.get("shape") == [] and given["values"] else given


def _described(given: Any) -> str:
    if isinstance(given, dict):
        return (
            f"an array of shape {tuple(given['shape'])} and type {given['dtype']}" if "shape" in given else f"a {given['other']}"
        )
    if isinstance(given, list):
        return f"{len(given)} values in a tuple or list"
    return "None" if given is None else f"the {type(given).__name__} {str(given)[:60]}"


def shown(given: Any) -> Any:
    """An encoded value for the eye."""
    if isinstance(given, list):
        parts = tuple(map(shown, given))
        return parts if any(isinstance(one, np.ndarray) for one in parts) else list(parts)
    if isinstance(given, dict) and given.get("values") is not None and len(given["shape"]) > 0:
        return np.array(given["values"]).reshape(given["shape"])
    scalar = _scalar(given)
    if isinstance(scalar, dict):
        return _described(scalar) + (f", more than {LARGEST:,} numbers" if np.prod(scalar.get("shape", [0])) > LARGEST else "")
    return scalar
