"""The file that a student begins with: signature, equation, shapes and an example, without the solution."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from firth.errors import ConfigError, option
from firth.experiments.exercises.catalog import find_exercise
from firth.experiments.exercises.exercise import Exercise
from firth.experiments.exercises.judge import arguments
from firth.files import exists, write_text

_WIDEST = 116  # of a line of the file, without its indentation


def exercise_stub(name: str, torch: bool = False) -> str:
    """The text of the file. `torch`: its arrays are torch tensors."""
    exercise = find_exercise(name)
    case = exercise.small[0]
    result = exercise.expected(case)
    kind = "torch.Tensor" if torch else "np.ndarray"
    head = _head(
        exercise, [f"{key}: {_type(value, kind)}" for key, value in arguments(exercise, case).items()], _type(result, kind)
    )
    if torch and kind not in head:
        raise ConfigError(f"{exercise.name} has no arrays, so {option('torch=True')} does not apply. Remove it.")
    imports = [f"import {'torch' if torch else 'numpy as np'}", "", ""] if kind in head else []
    about = f"{exercise.about[0].upper()}{exercise.about[1:]}"
    document = [f"{about}.", "", *exercise.equation.splitlines(), "", *_meanings(exercise), "", *_example(exercise, case, result)]
    text = "\n".join(f"    {line}".rstrip() for line in document)
    return "\n".join([*imports, head, f'    """{text.strip()}', '    """', "    raise NotImplementedError", ""])


def _head(exercise: Exercise, parameters: list[str], result: str) -> str:
    """On one line, or on three, or with one line per parameter."""
    given = ", ".join(parameters)
    if len(given) > _WIDEST:
        given = "".join(f"\n    {one}," for one in parameters) + "\n"
    elif len(f"def {exercise.name}({given}) -> {result}:") > _WIDEST:
        given = f"\n    {given}\n"
    return f"def {exercise.name}({given}) -> {result}:"


def write_stub(path: Path, text: str, overwrite: bool) -> None:
    if exists(path) and not overwrite:
        raise ConfigError(f"{path} exists. Choose another {option('out')}, or add {option('overwrite=True')} to replace it.")
    write_text(path, text)


def _type(value: Any, array: str) -> str:
    if isinstance(value, tuple):
        return f"tuple[{', '.join(_type(one, array) for one in value)}]"
    if isinstance(value, list):
        return f"list[{type(value[0]).__name__}]"
    return array if isinstance(value, np.ndarray) else type(value).__name__


def _meanings(exercise: Exercise) -> list[str]:
    wide = max(map(len, [*exercise.parameters, *exercise.returns]))
    rows = [f"{name:<{wide}}  {meaning}" for name, meaning in exercise.parameters.items()]
    return [*rows, "", "Returns", "", *(f"{name:<{wide}}  {meaning}" for name, meaning in exercise.returns.items())]


def _example(exercise: Exercise, case: tuple[Any, ...], result: Any) -> list[str]:
    results = result if isinstance(result, tuple) else (result,)
    rows = [*arguments(exercise, case).items(), *zip((f"→ {name}" for name in exercise.returns), results, strict=True)]
    return ["An example:", "", *(line for name, value in rows for line in _named(name, value))]


def _named(name: str, value: Any) -> list[str]:
    """The value on one line or, if that would be too long, with one line per row."""
    line = f"{name} = {_shown(value)}"
    return [line] if len(line) <= _WIDEST else line.replace("], [", f"],\n{' ' * (len(name) + 4)}[").splitlines()


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        rounded = np.round(value, 4) + 0 if value.dtype.kind == "f" else value  # + 0: no minus before a zero
        return str(rounded.tolist())
    return f"{value:.6g}" if isinstance(value, float) else repr(value)
