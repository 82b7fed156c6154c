"""What an exercise is: a function to write, its oracle, its inputs, and the programs that people write by mistake."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Case = tuple[Any, ...]  # the arguments of one call: arrays, numbers, strings and lists of strings
_SEED = 0


@dataclass(frozen=True)
class WrongProgram:
    """A known mistake. The sentence ends "your result equals …"."""

    sentence: str
    program: Callable[..., Any]


@dataclass(frozen=True)
class Exercise:
    """A function with the name of the exercise, which takes the arguments of a case in their order."""

    name: str
    about: str  # one line
    equation: str
    parameters: Mapping[str, str]  # name → meaning; the name ends in the axes
    returns: Mapping[str, str]  # several: a tuple in this order
    oracle: Callable[..., Any]
    small: tuple[Case, ...]  # exact inputs that are easy to read; the first one is the example of the stub
    draw: Callable[[np.random.Generator], Case]
    wrong: tuple[WrongProgram, ...]
    tolerance: float = 1e-5  # |given − expected| ≤ tolerance · (1 + |expected|)
    draws: int = 6  # random inputs

    def cases(self) -> list[Case]:
        """The small inputs, then random ones, the same each time."""
        generator = np.random.default_rng(_SEED)
        return [*self.small, *(self.draw(generator) for _ in range(self.draws))]

    def expected(self, case: Case) -> Any:
        return computed(self.oracle, case)


def computed(program: Callable[..., Any], case: Case) -> Any:
    """What a program gives for copies of the arguments. Overflow is part of some mistakes."""
    with np.errstate(all="ignore"):
        return program(*(one.copy() if isinstance(one, np.ndarray) else one for one in case))


def size(case: Case) -> int:
    """The count of numbers or words in the arguments."""
    return sum(one.size if isinstance(one, np.ndarray) else len(one) if isinstance(one, list) else 1 for one in case)
