"""Loss beyond the trained length: against the length of the windows, and at each position of the longest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from firth.figures.figure import COLOURS, DASHES, LEGEND_BELOW, Figure, Number, Table, escaped, lay_out

_BINS = 32  # points of a curve over positions
_SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up", "triangle-down", "star", "hexagon")
_LOSS = "loss, nats per token"


def by_length(lengths: Sequence[int], losses: Mapping[str, Sequence[float | None]], trained: int) -> Figure:
    """One line per position scheme; a missing loss ends its line."""
    import plotly.graph_objects as go

    plot, styles = go.Figure(), _styles(list(losses))
    for name, values in losses.items():
        places = [f"{length:,} ({length / trained:g}×)" for length in lengths]
        plot.add_scatter(x=places, y=list(values), mode="lines+markers", name=escaped(name), **styles[name])
    _lay_out(plot, "tokens per window (times the trained length)")
    plot.update_xaxes(type="category")
    rows = [
        (name, Number(length), _shown(loss))
        for name, values in losses.items()
        for length, loss in zip(lengths, values, strict=True)
    ]
    return Figure(plot, Table(("position", "tokens per window", _LOSS), rows))


def by_position(losses: Mapping[str, Sequence[float]], trained: int) -> Figure:
    """Mean loss of neighbouring positions, against the position in the window."""
    import plotly.graph_objects as go

    plot, styles = go.Figure(), _styles(list(losses))
    size = max(1, max(map(len, losses.values()), default=1) // _BINS)
    rows = []
    for name, values in losses.items():
        bins = [values[at : at + size] for at in range(0, len(values), size)]
        means = [sum(some) / len(some) for some in bins]
        places = [at * size + (len(some) + 1) / 2 for at, some in enumerate(bins)]  # positions count from 1
        plot.add_scatter(x=places, y=means, mode="lines", name=escaped(name), line=styles[name]["line"])
        rows += [(name, Number(place, "g"), _shown(mean)) for place, mean in zip(places, means, strict=True)]
    _lay_out(plot, "position in the window")
    plot.add_vline(x=trained, line={"color": "#888888", "dash": "dot"}, annotation_text="trained length")
    return Figure(plot, Table(("position scheme", "position in the window", _LOSS), rows))


def extrapolation_text(lengths: Sequence[int], losses: Mapping[str, Sequence[float | None]]) -> str:
    """One line per position scheme, one column per length."""
    margin = max(len("position"), *map(len, losses)) + 2
    lines = [f"{'position':<{margin}}" + "".join(f"{length:>10,}" for length in lengths)]
    lines += [f"{name:<{margin}}" + "".join(f"{_shown(loss):>10}" for loss in values) for name, values in losses.items()]
    return "\n".join(lines)


def _shown(loss: float | None) -> str:
    return "–" if loss is None else Number(loss, ".3f")


def _styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Variants of a scheme, such as "rotary+yarn", share its colour and have their own dashes; every line has its own markers."""
    kinds = list(dict.fromkeys(_kind(name) for name in names))
    styles: dict[str, dict[str, Any]] = {}
    for name in names:
        number, variant = kinds.index(_kind(name)), sum(_kind(other) == _kind(name) for other in styles)
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[variant % len(DASHES)]
        marker = {"color": colour, "size": 9, "symbol": _SYMBOLS[len(styles) % len(_SYMBOLS)]}
        styles[name] = {"line": {"color": colour, "dash": dash}, "marker": marker}
    return styles


def _kind(name: str) -> str:
    return name.partition("+")[0]


def _lay_out(plot: Any, along: str) -> None:
    lay_out(plot, (60, 20, 30, 60), xaxis_title=along, yaxis_title=_LOSS, legend=LEGEND_BELOW, height=480)
