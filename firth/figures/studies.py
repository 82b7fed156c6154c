"""Results over seeds: bars of one measure, or one measure against another, with standard deviations as whiskers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from firth.figures.figure import COLOURS, Figure, Number, Table, escaped, lay_out


@dataclass(frozen=True)
class Spread:
    """A mean over seeds with its standard deviation; None where nothing was measured, or only one seed."""

    mean: float | None
    deviation: float | None
    digits: int

    def number(self) -> str:
        return "–" if self.mean is None else Number(self.mean, f".{self.digits}f")

    def whisker(self) -> str:
        return "–" if self.deviation is None else Number(self.deviation, f".{self.digits}f")


def bars(of: Mapping[str, Spread], measure: str) -> Figure:
    """One bar for each model."""
    import plotly.graph_objects as go

    known = {name: spread for name, spread in of.items() if spread.mean is not None}
    plot = go.Figure()
    plot.add_bar(
        x=[escaped(name) for name in known],
        y=[spread.mean for spread in known.values()],
        error_y={"type": "data", "array": [spread.deviation or 0 for spread in known.values()]},
        marker={"color": COLOURS[0]},
    )
    plot.update_layout(
        template="plotly_white",
        xaxis={"type": "category"},
        yaxis={"title": escaped(measure)},
        margin={"l": 60, "r": 20, "t": 20, "b": 60},
        height=420,
    )
    rows = [(name, spread.number(), spread.whisker()) for name, spread in of.items()]
    return Figure(plot, Table(("model", measure, "s.d."), rows))


def one_against_another(points: Mapping[str, tuple[Spread, Spread]], x: str, y: str) -> Figure:
    """A point for each model, on logarithmic axes where all values are positive."""
    import plotly.graph_objects as go

    known = {name: pair for name, pair in points.items() if None not in (pair[0].mean, pair[1].mean)}
    plot = go.Figure()
    for n, (name, (across, up)) in enumerate(known.items()):
        plot.add_scatter(
            x=[across.mean],
            y=[up.mean],
            error_x={"type": "data", "array": [across.deviation or 0]},
            error_y={"type": "data", "array": [up.deviation or 0]},
            mode="markers+text",
            text=[escaped(name)],
            textposition="top center",
            marker={"color": COLOURS[n % len(COLOURS)], "size": 9},
            showlegend=False,
        )
    plot.update_layout(
        template="plotly_white",
        xaxis={"title": escaped(x), "type": _scale(pair[0] for pair in known.values())},
        yaxis={"title": escaped(y), "type": _scale(pair[1] for pair in known.values())},
        margin={"l": 60, "r": 20, "t": 20, "b": 60},
        height=460,
    )
    rows = [(name, across.number(), up.number(), up.whisker()) for name, (across, up) in points.items()]
    return Figure(plot, Table(("model", x, y, f"s.d. of {y}"), rows))


def differences(of: Mapping[str, tuple[float, float, float]]) -> Figure:
    """A point for each model with its interval, given as (difference, low, high); the line at 0 is no difference."""
    import plotly.graph_objects as go

    plot = go.Figure()
    plot.add_scatter(
        x=[middle for middle, _, _ in of.values()],
        y=[escaped(name) for name in of],
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [high - middle for middle, _, high in of.values()],
            "arrayminus": [middle - low for middle, low, _ in of.values()],
        },
        mode="markers",
        marker={"color": COLOURS[0], "size": 9},
    )
    plot.add_vline(0, line={"color": "grey", "dash": "dot"})
    plot.update_yaxes(type="category", autorange="reversed")
    plot.update_xaxes(title="difference, with its 95 % interval")
    lay_out(plot, (80, 20, 20, 60), height=160 + 40 * len(of))
    rows = [(name, *(Number(value, ".4g") for value in values)) for name, values in of.items()]
    return Figure(plot, Table(("model", "difference", "low", "high"), rows))


def _scale(of: Iterable[Spread]) -> str:
    means = [spread.mean for spread in of if spread.mean is not None]
    return "log" if means and min(means) > 0 and max(means) > 4 * min(means) else "linear"
