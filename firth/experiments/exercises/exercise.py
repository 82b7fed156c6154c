"""What an exercise is: a function to write, its oracle, its inputs, and the programs that people write by mistake."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Case = tuple[Any, ...]  # the arguments of one call: arrays, numbers, strings and lists of strings
_SEED = 0
_HIDDEN = 24  # hidden inputs
_LONGER = 3  # by how much their lengths may exceed those of the public inputs
_TRIES = 400  # to draw an input with some property


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
    clear: Callable[..., bool] = lambda *case: True  # False for an input whose result hangs on a tie

    def cases(self) -> list[Case]:
        """The small inputs, then random ones, the same each time."""
        generator = np.random.default_rng(_SEED)
        return [*self.small, *(self.draw(generator) for _ in range(self.draws))]

    def hidden(self, key: str, tells_apart: Callable[[WrongProgram, Case], bool]) -> list[Case]:
        """Inputs that nobody can guess who does not know the `key`, a hexadecimal number. The lengths of half of them occur in no
        public input, and every wrong program fails for one of them: it `tells_apart` the program and the oracle."""
        known = {lengths(case) for case in self.cases()}
        generator = _HiddenInputs(np.random.PCG64(int(key, 16)))
        half = _HIDDEN // 2
        cases = [self._drawn(generator, lambda case: lengths(case) not in known) for _ in range(half)]
        cases += [self._drawn(generator, lambda case: True) for _ in range(half)]
        for wrong in self.wrong:
            if not any(tells_apart(wrong, case) for case in cases):
                cases.append(self._drawn(generator, functools.partial(tells_apart, wrong)))
        return cases

    def _drawn(self, generator: np.random.Generator, wanted: Callable[[Case], bool]) -> Case:
        """The first clear input that is `wanted`."""
        for _ in range(_TRIES):
            case = self.draw(generator)
            if self.clear(*case) and wanted(case):
                return case
        raise AssertionError(f"{self.name}: {_TRIES} inputs, and none as it should be")

    def expected(self, case: Case) -> Any:
        return computed(self.oracle, case)


class _HiddenInputs(np.random.Generator):
    """Draws inputs that may be longer and larger than the public ones."""


def length(generator: np.random.Generator, low: int, high: int) -> int:
    """A length from `low` on and below `high`. Those of hidden inputs may be larger."""
    return int(generator.integers(low, high + (_LONGER if isinstance(generator, _HiddenInputs) else 0)))


def magnitude(generator: np.random.Generator, most: float) -> float:
    """1 for public inputs, and for most of the hidden ones; `most` for the others."""
    return most if isinstance(generator, _HiddenInputs) and generator.random() < 0.2 else 1.0


def lengths(case: Case) -> tuple[Any, ...]:
    """The shapes of arrays, the lengths of lists, and integers."""
    return tuple(
        one.shape if isinstance(one, np.ndarray) else len(one) if isinstance(one, list) else one if type(one) is int else None
        for one in case
    )


def computed(program: Callable[..., Any], case: Case) -> Any:
    """What a program gives for copies of the arguments. Overflow is part of some mistakes."""
    with np.errstate(all="ignore"):
        return program(*(one.copy() if isinstance(one, np.ndarray) else one for one in case))


def size(case: Case) -> int:
    """The count of numbers or words in the arguments."""
    return sum(one.size if isinstance(one, np.ndarray) else len(one) if isinstance(one, list) else 1 for one in case)
