"""The verdict on one function: right, or what is wrong with it and for which input."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Kind = Literal[
    "right",
    "value",
    "nan",
    "shape",
    "type",
    "exception",
    "timeout",
    "memory",
    "crash",
    "changed",
    "missing",
    "syntax",
    "forbidden",
]
# Whatever a verdict on hidden inputs says about them. A message of the student's own program could quote them.
_WITHOUT_INPUTS: Mapping[str, str] = {
    "value": "It gives another result than the equation.",
    "nan": "It gives NaN.",
    "shape": "It gives a result of another shape.",
    "type": "It gives a result of another type.",
    "exception": "It raises an exception.",
    "timeout": "It does not finish in time.",
    "memory": "It needs more memory than it may.",
    "crash": "It ends the process.",
}
_SHOWN = 60  # numbers of an array in the text


@dataclass(frozen=True)
class ExerciseVerdict:
    """What `firth check` says about one function. `.passed` is True if it is right, `.text()` prints the verdict with its
    evidence, and `.facts()` has the same as plain data."""

    exercise: str  # its name
    kind: Kind  # "right", or what is wrong: "value", "shape", "exception", "timeout", …
    message: str  # the verdict in one sentence
    inputs: int = 0  # how many were tried
    mistake: str | None = None  # the known wrong program with the same results
    arguments: Mapping[str, Any] = field(default_factory=dict)  # the smallest failing input
    returned: Any = None  # what the function gave for it
    expected: Any = None  # what the oracle gives for it
    traceback: tuple[str, ...] = ()  # those lines that are in the student's file
    printed: str = ""  # by the student's code

    @property
    def passed(self) -> bool:
        """True if the function is right."""
        return self.kind == "right"

    def without_inputs(self) -> ExerciseVerdict:
        """The same without anything from which somebody could tell the inputs."""
        message = self.message if self.mistake else _WITHOUT_INPUTS.get(self.kind, self.message)
        return ExerciseVerdict(self.exercise, self.kind, message, self.inputs, self.mistake)

    def text(self) -> str:
        """The verdict with its evidence, for a terminal."""
        lines = [f"{self.exercise}: {'right' if self.passed else 'wrong'}. {self.message}"]
        lines += [f"    {line}" for line in self.traceback]
        if self.arguments:
            lines.append("  The smallest failing input:")
            lines += [_named(name, value) for name, value in self.arguments.items()]
        if self.arguments and self.kind in ("value", "nan", "shape", "type"):
            lines += [_named("returned", self.returned), _named("expected", self.expected)]
        if self.printed:
            lines += ["  Your code printed:", textwrap.indent(self.printed.rstrip("\n"), "    ")]
        return "\n".join(lines)

    def facts(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "exercise": self.exercise,
            "passed": self.passed,
            "kind": self.kind,
            "message": self.message,
            "inputs": self.inputs,
            "mistake": self.mistake,
            "arguments": {name: plain(value) for name, value in self.arguments.items()},
            "returned": plain(self.returned),
            "expected": plain(self.expected),
            "traceback": list(self.traceback),
            "printed": self.printed,
        }

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text())}</pre>"


def plain(value: Any) -> Any:
    """A value for JSON; numbers that are not finite are null."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _named(name: str, value: Any) -> str:
    start = f"    {name} = "
    if isinstance(value, np.ndarray):
        shown = np.array2string(
            value, precision=4, separator=", ", threshold=_SHOWN, prefix=start, floatmode="maxprec", max_line_width=110
        )
        return start + shown
    if isinstance(value, tuple):
        return f"    {name}:\n" + "\n".join(f"  {_named(str(place), one)}" for place, one in enumerate(value, 1))
    return start + (f"{value:.6g}" if isinstance(value, float) else repr(value))
