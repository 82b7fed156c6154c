"""The most probable next tokens as a bar chart."""

from __future__ import annotations

from collections.abc import Sequence

from firth.errors import DataError
from firth.figures.alignment import visible
from firth.figures.figure import COLOURS, Figure, Number, Table, escaped, lay_out


def next_bars(tokens: Sequence[str], probability: Sequence[float], share: Sequence[float]) -> Figure:
    """Two bars per token, most probable at the top: its probability, and its sampling probability after temperature, top-k and
    top-p."""
    import plotly.graph_objects as go

    if not tokens or not len(tokens) == len(probability) == len(share):
        raise DataError(
            f"{len(probability)} probabilities and {len(share)} shares for {len(tokens)} tokens; expected one of each per token"
        )
    names = [escaped(visible(token)) for token in tokens]
    plot = go.Figure()
    for name, values, colour in (("probability", probability, COLOURS[0]), ("sampling probability", share, COLOURS[1])):
        plot.add_bar(
            x=list(map(float, values)),
            y=list(range(len(tokens))),
            orientation="h",
            name=name,
            marker={"color": colour},
            hovertext=names,
            hovertemplate="%{hovertext}<br>%{x:.4f}<extra></extra>",
        )
    plot.update_xaxes(title_text="probability", range=[0, 1])
    # Ticks are numbers, not tokens: two tokens may look the same.
    plot.update_yaxes(
        tickvals=list(range(len(tokens))), ticktext=names, range=[len(tokens) - 0.5, -0.5], zeroline=False, ticklabelstandoff=6
    )
    left, legend = 40 + 8 * max(map(len, map(visible, tokens))), {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
    lay_out(plot, (left, 20, 40, 50), height=120 + 34 * len(tokens), legend=legend)
    rows = [
        (visible(token), Number(p, ".6g"), Number(drawn, ".6g"))
        for token, p, drawn in zip(tokens, probability, share, strict=True)
    ]
    return Figure(plot, Table(("token", "probability", "sampling probability"), rows))
