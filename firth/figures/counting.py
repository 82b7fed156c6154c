"""The parameters of a model by matrix, and human-readable numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from firth.figures.figure import COLOURS, Figure, Number, Table, lay_out


class Part(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def count(self) -> int: ...

    @property
    def weights(self) -> int: ...


def parameters(parts: Sequence[Part]) -> Figure:
    """One bar per kind of matrix or vector with its number of weights, in model order."""
    import plotly.graph_objects as go

    places = list(range(len(parts)))  # numbers, not names: biases of different shapes share a name
    total = sum(part.weights for part in parts) or 1
    shapes = [" × ".join(f"{size:,}" for size in part.shape) for part in parts]
    plot = go.Figure(
        go.Bar(
            x=[part.weights for part in parts],
            y=places,
            customdata=[part.name for part in parts],
            orientation="h",
            marker={"color": COLOURS[0]},
            text=[f"{part.weights / total:.1%}" for part in parts],
            hovertext=[f"{part.count:,} of {shape}" for part, shape in zip(parts, shapes, strict=True)],
            cliponaxis=False,
        )
    )
    plot.update_xaxes(title="weights", rangemode="tozero")
    plot.update_yaxes(autorange="reversed", automargin=True, tickvals=places, ticktext=[part.name for part in parts])
    lay_out(plot, (20, 60, 20, 60), height=120 + 26 * len(parts))
    rows = [
        (part.name, Number(part.count, ","), shape, Number(part.weights, ","), Number(part.weights / total, ".2%"))
        for part, shape in zip(parts, shapes, strict=True)
    ]
    return Figure(plot, Table(("part", "how many", "shape of one", "weights", "share"), rows))


def short(number: float) -> str:
    """Three significant digits and a unit: 175181291520 is 175 G."""
    for unit in ("", " k", " M", " G", " T"):
        if number < 999.5:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g} P"


def in_bytes(number: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1023.5:
            return f"{number:.3g} {unit}" if number < 999.5 else f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.3g} TiB"
