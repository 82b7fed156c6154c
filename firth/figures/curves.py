"""Training loss against tokens, one line per run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from firth.figures.figure import LEGEND_BELOW, Figure, Number, Table, lay_out, line_style


@dataclass(frozen=True)
class Curve:
    tokens: Sequence[int]
    bits: Sequence[float]
    seconds: Sequence[float]


def loss_curves(curves: Mapping[str, Curve], held_out: Mapping[str, float]) -> Figure:
    """Training loss in bits per token against tokens read, with the final held-out loss as a marker at the end of each line."""
    import plotly.graph_objects as go

    plot = go.Figure()
    for n, (name, curve) in enumerate(curves.items()):
        line, times = line_style(n), [f"{second:.0f} s" for second in curve.seconds]
        plot.add_scatter(
            x=list(curve.tokens), y=list(curve.bits), mode="lines", name=name, legendgroup=name, line=line, text=times
        )
        if name in held_out and curve.tokens:
            marker = {"color": line["color"], "size": 10, "symbol": "diamond"}
            point = {"x": [curve.tokens[-1]], "y": [held_out[name]], "name": f"{name}, held out"}
            plot.add_scatter(**point, mode="markers", marker=marker, legendgroup=name, showlegend=False)
    plot.update_xaxes(title="tokens read").update_yaxes(title="bits per character")
    lay_out(plot, (60, 20, 20, 60), height=460, legend=LEGEND_BELOW)
    rows = [
        (name, Number(tokens), Number(bits, ".4f"), Number(seconds, ".1f"))
        for name, curve in curves.items()
        for tokens, bits, seconds in zip(curve.tokens, curve.bits, curve.seconds, strict=True)
    ]
    return Figure(plot, Table(("model", "tokens", "bits per character", "seconds"), rows))
