"""`firth.check`: a function of a notebook or script against its exercise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firth.errors import ConfigError, option
from firth.experiments.exercises.catalog import NAMES, find_exercise
from firth.experiments.exercises.child import outcomes
from firth.experiments.exercises.judge import hidden_cases, judged
from firth.experiments.exercises.verdict import ExerciseVerdict


def check(function: Callable[..., Any], exercise: str | None = None, *, key: str | None = None) -> ExerciseVerdict:
    """Check a `function` of your own against an exercise, and name the mistake.

    `exercise` is the name of the exercise, by default that of the function. The function gets torch tensors if the annotation of
    one of its parameters names Tensor, and NumPy arrays otherwise. It runs in this process, without limits of time or memory;
    `firth check` has both. `key`: check with the hidden inputs of an assignment, which follow from this hexadecimal number; the
    verdict then shows none of them."""
    if not callable(function):
        raise ConfigError(f"a function is expected, not {type(function).__name__}. Give the function itself, without a call.")
    name = getattr(function, "__name__", "") if exercise is None else exercise
    if exercise is None and name not in NAMES:
        known, given = ", ".join(NAMES), option("exercise")
        raise ConfigError(f'there is no exercise "{name}". Say which one the function is with {given}: {known}.')
    chosen = find_exercise(name)
    if key is None:
        return judged(chosen, list(outcomes(function, chosen.cases())))
    cases = hidden_cases(chosen, _hexadecimal(key))
    return judged(chosen, list(outcomes(function, cases)), cases=cases).without_inputs()


def _hexadecimal(key: str) -> str:
    try:
        int(key, 16)
    except ValueError:
        raise ConfigError("the key of an assignment is a hexadecimal number. Copy it from keys.json.") from None
    return key
