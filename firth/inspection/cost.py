"""The cost of a layer as a function of text length n and width d (Vaswani et al. 2017, table 1):

    recurrent          O(n·d²) operations in n sequential steps
    self-attention     O(n²·d) operations in one step; its projections add O(n·d²)
    linear attention   O(n·d²) operations, divided by the number of heads; its chunks are scanned in O(log n) steps

Timings come from benchmarks/rnn_vs_transformer.py. This module counts operations and fits exponents to both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from firth.errors import ConfigError, DataError
from firth.figures.cost import cost_curves
from firth.figures.figure import Drawn, Figure
from firth.layers.linear_attention.chunked import CHUNK
from firth.layers.recurrent import CellKind, cell_class

AttentionLayer = Literal["attention", "attention with projections"]
LinearLayer = Literal["linear attention", "gated linear attention"]
Layer = CellKind | AttentionLayer | LinearLayer
LAYERS: tuple[Layer, ...] = (*get_args(CellKind), *get_args(AttentionLayer), *get_args(LinearLayer))
HEADS = 4
_OVERHEAD = 2  # times the time of the smallest size: below that, constant overhead hides the growth


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
    linear attention, for each number of its state: φ(k) vᵀ, φ(q)ᵀ S and, if it is gated, g S."""
    match layer:
        case "attention":
            return 2 * n * n * d
        case "attention with projections":
            return 2 * n * n * d + 4 * n * d * d
        case "linear attention":
            return 2 * n * d * d // HEADS
        case "gated linear attention":
            return 3 * n * d * d // HEADS
        case kind:
            cell = cell_class(kind)
            return (2 if cell.has_hidden_weights else 1) * len(cell.gates) * n * d * d


def steps(layer: Layer, n: int) -> int:
    """Sequential steps, however many processors there are."""
    if layer in get_args(AttentionLayer):
        return 1
    if layer in get_args(LinearLayer):
        return max(1, -(-n // CHUNK)).bit_length()
    return max(1, (n - 1).bit_length()) if cell_class(layer).parallel else n


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """b in seconds = a · size^b, by least squares on the logarithms."""
    if len(sizes) != len(seconds) or len(set(sizes)) < 2 or min(seconds) <= 0:
        raise DataError(
            f"{len(seconds)} times for {len(sizes)} sizes; expected one positive time per size, for at least two sizes"
        )
    slope, _ = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return float(slope)


@dataclass(frozen=True, repr=False)
class Costs(Drawn):
    """Timings along n at a fixed d, and along d at a fixed n."""

    timings: tuple[Timing, ...]
    n: int  # fixed for the timings along d
    d: int  # fixed for the timings along n

    def along(self, layer: Layer, axis: Literal["n", "d"]) -> list[Timing]:
        """The timings of a layer along one axis, smallest size first."""
        fixed, held = ("d", self.d) if axis == "n" else ("n", self.n)
        found = [one for one in self.timings if one.layer == layer and getattr(one, fixed) == held]
        if not found:
            raise ConfigError(f'no timings of "{layer}" along {axis}. Measure some at {fixed} = {held}')
        return sorted(found, key=lambda one: int(getattr(one, axis)))

    def exponent(self, layer: Layer, axis: Literal["n", "d"]) -> float:
        """The exponent fitted to the larger half of the sizes: constant overhead hides the growth at small ones."""
        some = self.along(layer, axis)
        some = some[(len(some) - 1) // 2 :]
        return exponent([getattr(one, axis) for one in some], [one.seconds for one in some])

    def theory(self, layer: Layer, axis: Literal["n", "d"]) -> float:
        """The exponent of the operation counts, at the same sizes."""
        some = self.along(layer, axis)
        some = some[(len(some) - 1) // 2 :]
        return exponent([getattr(one, axis) for one in some], [float(one.operations) for one in some])

    def growth(self, layer: Layer, axis: Literal["n", "d"]) -> float | None:
        """The exponent of the largest sizes, or None where it cannot be measured: a layer that takes hardly longer at its largest
        size than at its smallest spends its time on overhead, and so does one whose time does not grow from size to size."""
        some = self.along(layer, axis)
        some = [one for one in some if one.seconds >= _OVERHEAD * some[0].seconds][-3:]
        seconds = [one.seconds for one in some]
        if len(some) < 2 or seconds != sorted(seconds):
            return None
        return exponent([getattr(one, axis) for one in some], seconds)

    @property
    def layers(self) -> tuple[Layer, ...]:
        return tuple(dict.fromkeys(one.layer for one in self.timings))

    def figure(self) -> Figure:
        exponents = {str(name): (self.growth(name, "n"), self.growth(name, "d")) for name in self.layers}
        along = {str(name): (self.along(name, "n"), self.along(name, "d")) for name in self.layers}
        return cost_curves(along, exponents, self.n, self.d)

    def text(self) -> str:
        """Measured exponents next to those of the operation counts."""
        lines = [f"{'layer':<28}{'n measured':>11}{'counted':>9}{'d measured':>12}{'counted':>9}{'steps':>8}"]
        for name in self.layers:
            found = [f(name, axis) for axis in ("n", "d") for f in (self.exponent, self.theory)]
            last = self.along(name, "n")[-1]
            lines.append(f"{name:<28}{found[0]:>11.2f}{found[1]:>9.2f}{found[2]:>12.2f}{found[3]:>9.2f}{last.steps:>8}")
        return "\n".join(lines)
