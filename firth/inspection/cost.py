"""The cost of a layer as a function of text length n and width d (Vaswani et al. 2017, table 1):

    recurrent          O(n·d²) operations in n sequential steps
    self-attention     O(n²·d) operations in one step; its projections add O(n·d²)
    linear attention   O(n·d²) operations, divided by the number of heads; its chunks are scanned in O(log n) steps

Timings come from inspection/timing.py. This module counts operations and fits exponents to both. An exponent is that of large
sizes: at small ones constant overhead hides the growth. So it is only told where it has settled, with its standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from firth.errors import ConfigError, DataError
from firth.figures.cost import cost_curves
from firth.figures.figure import Drawn, Figure
from firth.layers.linear_attention.chunked import CHUNK
from firth.layers.recurrent import CELLS, CellKind

AttentionLayer = Literal["attention", "attention with projections"]
LinearLayer = Literal["linear attention", "gated linear attention"]
Layer = CellKind | AttentionLayer | LinearLayer
HEADS = 4
FITTED = 4  # sizes, the largest ones, to which an exponent is fitted
_OVERHEAD = 8  # multiple of the smallest size's time: below it, constant overhead hides the growth
_SURE = 0.1  # largest standard error of an exponent that is reported
_RISING = 0.15  # difference between the last and the first doubling: beyond it, overhead still hides some of the growth


def layers() -> tuple[Layer, ...]:
    return (*CELLS.kinds, *get_args(AttentionLayer), *get_args(LinearLayer))


@dataclass(frozen=True)
class Timing:
    """One layer, one text of n tokens, width d."""

    layer: Layer
    n: int
    d: int
    seconds: float

    @property
    def operations(self) -> int:
        return operations(self.layer, self.n, self.d)

    @property
    def steps(self) -> int:
        return steps(self.layer, self.n)


def operations(layer: Layer, n: int, d: int) -> int:
    """Multiply–add operations of a forward pass: W x and U h of each gate; q·k and the weighted sum of v; q, k, v and o; and of
    linear attention, for each number of its state, φ(k) vᵀ, φ(q)ᵀ S and, if it is gated, g S once in each chunk, within which it
    is attention."""
    match layer:
        case "attention":
            return 2 * n * n * d
        case "attention with projections":
            return 2 * n * n * d + 4 * n * d * d
        case "linear attention" | "gated linear attention":
            chunk = min(n, CHUNK)
            gating = n // chunk * d * d // HEADS if layer == "gated linear attention" else 0
            return 2 * n * d * d // HEADS + 2 * n * chunk * d + gating
        case kind:
            cell = CELLS[kind]
            return (2 if cell.has_hidden_weights else 1) * len(cell.gates) * n * d * d


def steps(layer: Layer, n: int) -> int:
    """Sequential steps, however many processors there are."""
    if layer in get_args(AttentionLayer):
        return 1
    if layer in get_args(LinearLayer):
        return max(1, -(-n // CHUNK)).bit_length()
    return max(1, (n - 1).bit_length()) if CELLS[layer].scans else n


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """b in seconds = a · size^b, by least squares on the logarithms."""
    if len(sizes) != len(seconds) or len(set(sizes)) < 2 or min(seconds) <= 0:
        raise DataError(
            f"{len(seconds)} times for {len(sizes)} sizes; expected one positive time per size, for at least two sizes"
        )
    slope, _ = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return float(slope)


@dataclass(frozen=True)
class Fit:
    """seconds = a · size^exponent, fitted to the largest sizes."""

    exponent: float
    error: float  # standard error of the exponent
    counted: float  # the exponent of the operation counts at the same sizes
    sizes: tuple[int, ...]
    rise: float  # the exponent of the last doubling minus that of the first one
    grown: float  # the first time that is fitted over that of the smallest size

    @property
    def settled(self) -> bool:
        """True if the exponent is reliable: the fitted times are far above the overhead, and larger sizes would not change it."""
        return self.grown >= _OVERHEAD and self.error <= _SURE and self.rise <= _RISING


def fitted(timings: Sequence[Timing], axis: Literal["n", "d"]) -> Fit | None:
    """The fit; None if there are too few sizes."""
    some = timings[-FITTED:]
    if len(some) < FITTED:
        return None
    size, seconds = [int(getattr(one, axis)) for one in some], [one.seconds for one in some]
    counted = exponent(size, [float(one.operations) for one in some])
    x, y = np.log(size), np.log(seconds)
    slope = exponent(size, seconds)
    residual = y - y.mean() - slope * (x - x.mean())
    error = float(np.sqrt((residual**2).sum() / (len(some) - 2) / ((x - x.mean()) ** 2).sum()))
    rise = exponent(size[-2:], seconds[-2:]) - exponent(size[:2], seconds[:2])
    return Fit(slope, error, counted, tuple(size), rise, seconds[0] / timings[0].seconds)


@dataclass(frozen=True, repr=False)
class Costs(Drawn):
    """Timings along n at a fixed d, and along d at a fixed n."""

    timings: tuple[Timing, ...]
    n: int  # fixed for the timings along d
    d: int  # fixed for the timings along n

    def along(self, layer: Layer, axis: Literal["n", "d"]) -> list[Timing]:
        """The timings of a layer along one axis, smallest size first."""
        fixed, held = ("d", self.d) if axis == "n" else ("n", self.n)
        timings = [one for one in self.timings if one.layer == layer and getattr(one, fixed) == held]
        if not timings:
            raise ConfigError(f'no timings of "{layer}" along {axis}. Measure some at {fixed} = {held}')
        return sorted(timings, key=lambda one: int(getattr(one, axis)))

    def fit(self, layer: Layer, axis: Literal["n", "d"]) -> Fit | None:
        """The exponent along one axis; None if there are too few sizes."""
        return fitted(self.along(layer, axis), axis)

    def growth(self, layer: Layer, axis: Literal["n", "d"]) -> float | None:
        """The exponent, or None if it is not reliable."""
        fit = self.fit(layer, axis)
        return fit.exponent if fit is not None and fit.settled else None

    @property
    def layers(self) -> tuple[Layer, ...]:
        return tuple(dict.fromkeys(one.layer for one in self.timings))

    def figure(self) -> Figure:
        exponents = {str(name): (self.growth(name, "n"), self.growth(name, "d")) for name in self.layers}
        along = {str(name): (self.along(name, "n"), self.along(name, "d")) for name in self.layers}
        return cost_curves(along, exponents, self.n, self.d)

    def text(self) -> str:
        """Measured exponents with their errors next to those of the operation counts."""
        head = (
            f"{'layer':<28}{'n measured':>13}{'counted':>9}{'sizes':>13}{'d measured':>14}{'counted':>9}{'sizes':>13}{'steps':>9}"
        )
        lines = [head]
        for name in self.layers:
            cells = "".join(self._cells(name, axis, gap) for axis, gap in (("n", 0), ("d", 1)))  # type: ignore[arg-type]
            lines.append(f"{name:<28}{cells}{self.along(name, 'n')[-1].steps:>9,}")
        notes = [f"seconds ∝ n^b at d = {self.d}, and ∝ d^b at n = {self.n}; ± is the standard error of b"]
        if any(self.growth(name, axis) is None for name in self.layers for axis in ("n", "d")):
            notes.append("–: not measurable up to this size, because overhead hides the growth or the times vary too much")
        return "\n".join(lines + notes)

    def _cells(self, layer: Layer, axis: Literal["n", "d"], gap: int) -> str:
        fit = self.fit(layer, axis)
        if fit is None or not fit.settled:
            return f"{'–':>{13 + gap}}{'':>9}{f'…{getattr(self.along(layer, axis)[-1], axis):,}':>13}"
        measured, sizes = f"{fit.exponent:.2f} ± {fit.error:.2f}", f"{fit.sizes[0]:,}…{fit.sizes[-1]:,}"
        return f"{measured:>{13 + gap}}{fit.counted:>9.2f}{sizes:>13}"

    def facts(self) -> dict[str, dict[str, Any]]:
        """For JSON: an exponent that is not reliable is null."""
        return {str(name): self._of_axis(name, "n") | self._of_axis(name, "d") for name in self.layers}

    def _of_axis(self, layer: Layer, axis: Literal["n", "d"]) -> dict[str, Any]:
        fit, times = self.fit(layer, axis), self.along(layer, axis)
        seen = fit is not None and fit.settled
        return {
            axis: fit.exponent if fit is not None and seen else None,
            f"{axis}_error": fit.error if fit is not None and seen else None,
            f"{axis}_counted": None if fit is None else fit.counted,
            f"{axis}_seconds": {getattr(one, axis): one.seconds for one in times},
        }


def joined(several: Sequence[Costs]) -> Costs:
    """The timings of several layers, taken at the same n and d, as one."""
    return replace(several[0], timings=tuple(timing for one in several for timing in one.timings))
