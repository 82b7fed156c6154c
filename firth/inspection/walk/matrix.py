"""Matrix: one matrix of a forward pass, with its equation, the line of code that computes it, and the terms of each cell.

Letters: T tokens (rows), i input width of a product, o its output width.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

_ROOT = Path(__file__).parents[3]


class SourceLine(NamedTuple):
    """A line of firth's source, numbered from 1."""

    path: str
    line: int
    code: str


@lru_cache(maxsize=256)
def source_line(function: Callable[..., Any], part: str) -> SourceLine:
    """The first line of `function` that contains `part`."""
    lines, start = inspect.getsourcelines(function)
    for n, code in enumerate(lines):
        if part in code:
            return SourceLine(shown_path(Path(inspect.getsourcefile(function) or "")), start + n, code.strip())
    raise LookupError(f"{function.__qualname__} has no line with {part!r}")


def shown_path(path: Path) -> str:
    """The path from the root of firth; for a user's file, its name."""
    return path.relative_to(_ROOT).as_posix() if path.is_relative_to(_ROOT) else path.name


@dataclass(frozen=True, eq=False)
class Line:
    """One step in the computation of a cell. A sum of products also has its factors: value = Σ left · right."""

    label: str
    value: float
    left: Tensor | None = None
    right: Tensor | None = None
    names: tuple[str, str] = ("", "")  # of the factors
    terms: tuple[str, ...] = ()  # labels of the terms, if they are not just numbered


Spell = Callable[[int, int], list[Line]]


@dataclass(frozen=True, eq=False)
class WalkMatrix:
    name: str  # the letter in the equations: "q"
    title: str
    equation: str
    axes: str  # the letters of docs/notation.md, one per axis
    value: Tensor  # rows × columns
    rows: tuple[str, ...]  # a token for each row
    source: SourceLine
    spell: Spell | None = None  # the computation of one cell; its last line is the cell
    columns: tuple[str, ...] = ()  # tokens, where columns are tokens
    step: bool = False  # whether a row needs the row before it
    allowed: Tensor | None = None  # where a mask leaves cells out: True for those that stay
    unit: bool = False  # whether all values are between 0 and 1
    reads: tuple[str, ...] | None = None  # names of the matrices that it is computed from; None: those in the equation

    def lines(self, row: int, column: int) -> list[Line]:
        return [] if self.spell is None else self.spell(row, column)


class LinearProduct(NamedTuple):
    """y = x Wᵀ + b, with x in rows."""

    x_Ti: Tensor
    W_oi: Tensor
    b_o: Tensor | None
    names: tuple[str, str]  # of x and W

    def spell(self, name: str) -> Spell:
        def lines(t: int, o: int) -> list[Line]:
            total = product(f"Σ {self.names[0]} {self.names[1]}", self.x_Ti[t], self.W_oi[o], self.names)
            if self.b_o is None:
                return [Line(name, total.value, total.left, total.right, self.names)]
            bias = number(self.b_o[o])
            return [total, Line("bias", bias), Line(name, total.value + bias)]

        return lines


def product(label: str, left: Tensor, right: Tensor, names: tuple[str, str], terms: Sequence[str] = ()) -> Line:
    """Σ left · right, in float64."""
    left, right = left.detach(), right.detach()
    return Line(label, float(torch.dot(left.double(), right.double())), left, right, names, tuple(terms))


def number(x: Tensor) -> float:
    return float(x.detach())


def added(parts: Sequence[tuple[str, Tensor]], name: str) -> Spell:
    """The sum of matrices, cell by cell."""

    def lines(t: int, j: int) -> list[Line]:
        terms = [Line(label, number(part[t, j])) for label, part in parts]
        return [*terms, Line(name, sum(line.value for line in terms))]

    return lines
