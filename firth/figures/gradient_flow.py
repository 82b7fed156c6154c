"""Gradient flow: the gradient norm against distance on a logarithmic scale, one line per model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from firth.figures.alignment import visible
from firth.figures.attention import shown
from firth.figures.figure import LEGEND_BELOW, Figure, Number, Table, escaped, lay_out, line_style


def flow_by_distance(curves: Mapping[str, npt.ArrayLike], title: str, tokens: Sequence[str] | None = None) -> Figure:
    """Norm n of each curve belongs to the token n positions before the last; `tokens` are the names, in that order. A norm of 0,
    such as beyond a window, has no logarithm and leaves a gap."""
    import plotly.graph_objects as go

    plot = go.Figure()
    named = [f"{shown(token)}, {n} tokens before" for n, token in enumerate(tokens)] if tokens else None
    for n, (name, given) in enumerate(curves.items()):
        norms = np.asarray(given, np.float64).tolist()
        plot.add_scatter(
            x=list(range(len(norms))),
            y=[norm if norm > 0 else None for norm in norms],
            mode="lines",
            name=escaped(name),
            text=named,
            hovertemplate=("%{text}<br>" if named else "%{x} tokens before<br>") + "%{y:.3e}",
            line=line_style(n, width=2.5),
        )
    plot.update_xaxes(title_text="distance T − t, tokens")
    plot.update_yaxes(title_text="‖∂ loss / ∂ h‖", type="log", exponentformat="power")
    lay_out(plot, (80, 20, 50, 60), 760, 460, heading=title, showlegend=True, legend=LEGEND_BELOW)
    rows = [
        (name, Number(n), "" if not tokens else visible(tokens[n]), Number(norm, ".3e"))
        for name, given in curves.items()
        for n, norm in enumerate(np.asarray(given, np.float64).tolist())
    ]
    return Figure(plot, Table(("curve", "distance", "token", "norm"), rows))
