"""The time of a layer against text length and width on logarithmic scales, where a power law is a straight line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from firth.figures.figure import LEGEND_BELOW, Figure, Number, Table, escaped, lay_out, line_style


class TimedLayer(Protocol):
    @property
    def n(self) -> int: ...
    @property
    def d(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def operations(self) -> int: ...
    @property
    def steps(self) -> int: ...


def cost_curves(
    layers: Mapping[str, tuple[Sequence[TimedLayer], Sequence[TimedLayer]]],
    exponents: Mapping[str, tuple[float | None, float | None]],
    n: int,
    d: int,
) -> Figure:
    """For each layer, its timings along n at width `d` (left) and along d at length `n` (right), with the exponents that could be
    fitted."""
    from plotly.subplots import make_subplots

    plot = make_subplots(1, 2, subplot_titles=(f"against n, at d = {d}", f"against d, at n = {n}"), horizontal_spacing=0.1)
    for number, (name, both) in enumerate(layers.items()):
        powers = [f"{axis}^{exponent:.2f}" for axis, exponent in zip("nd", exponents[name], strict=True) if exponent is not None]
        shown = ": ".join([escaped(name), *([", ".join(powers)] if powers else [])])
        for column, (axis, some) in enumerate(zip(("n", "d"), both, strict=True), start=1):
            plot.add_scatter(
                x=[getattr(one, axis) for one in some],
                y=[one.seconds for one in some],
                mode="lines+markers",
                name=shown,
                legendgroup=name,
                showlegend=column == 1,
                line=line_style(number, width=2.5),
                hovertemplate=f"{axis} = %{{x}}<br>%{{y:.3g}} s",
                row=1,
                col=column,
            )
    plot.update_xaxes(type="log", dtick="D2")
    plot.update_xaxes(title_text="n, tokens", row=1, col=1)
    plot.update_xaxes(title_text="d, width", row=1, col=2)
    plot.update_yaxes(type="log", exponentformat="power")
    plot.update_yaxes(title_text="seconds, forward", row=1, col=1)
    lay_out(plot, (70, 20, 40, 80), 920, 460, legend=LEGEND_BELOW)
    rows = [
        (name, axis, Number(one.n), Number(one.d), Number(one.seconds, ".3e"), Number(one.operations), Number(one.steps))
        for name, both in layers.items()
        for axis, some in zip(("n", "d"), both, strict=True)
        for one in some
    ]
    return Figure(plot, Table(("layer", "along", "n", "d", "seconds", "operations", "steps"), rows))
