"""Training loss against tokens, one line per run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from firth.figures.figure import COLOURS, DASHES, Figure, Number, Table


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
        line = {"color": COLOURS[n % len(COLOURS)], "dash": DASHES[n % len(DASHES)]}
        times = [f"{second:.0f} s" for second in curve.seconds]
        plot.add_scatter(
            x=list(curve.tokens), y=list(curve.bits), mode="lines", name=name, legendgroup=name, line=line, text=times
        )
        if name in held_out and curve.tokens:
            marker = {"color": line["color"], "size": 10, "symbol": "diamond"}
            point = {"x": [curve.tokens[-1]], "y": [held_out[name]], "name": f"{name}, held out"}
            plot.add_scatter(**point, mode="markers", marker=marker, legendgroup=name, showlegend=False)
    plot.update_layout(
        template="plotly_white",
        xaxis_title="tokens read",
        yaxis_title="bits per character",
        legend={"orientation": "h", "y": -0.2},
        margin={"l": 60, "r": 20, "t": 20, "b": 60},
        height=460,
    )
    rows = [
        (name, Number(tokens), Number(bits, ".4f"), Number(seconds, ".1f"))
        for name, curve in curves.items()
        for tokens, bits, seconds in zip(curve.tokens, curve.bits, curve.seconds, strict=True)
    ]
    return Figure(plot, Table(("model", "tokens", "bits per character", "seconds"), rows))
