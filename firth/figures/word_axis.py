"""Words on one axis as bars, or on two axes as points."""

from __future__ import annotations

import html
from collections.abc import Sequence

from firth.figures.figure import COLOURS, Figure, Table
from firth.figures.word_map import SearchableMap, embedding_map

_BLUE, _ORANGE = COLOURS[:2]


def axis_bars(rows: Sequence[tuple[str, float]], axis: str) -> Figure:
    """One bar per word, the first at the top: to the right in blue where the cosine is positive, to the left in orange."""
    import plotly.graph_objects as go

    places = list(range(len(rows)))  # numbers, not words: equal words would share a bar
    plot = go.Figure(
        go.Bar(
            x=[value for _, value in rows],
            y=places,
            orientation="h",
            marker={"color": [_BLUE if value >= 0 else _ORANGE for _, value in rows]},
            text=[f"{value:.2f}" for _, value in rows],
            customdata=[word for word, _ in rows],
            hoverinfo="x",
            cliponaxis=False,
        )
    )
    plot.update_layout(
        template="plotly_white",
        height=100 + 26 * len(rows),
        xaxis={"title": html.escape(axis), "zeroline": True, "zerolinecolor": COLOURS[-1]},
        yaxis={
            "autorange": "reversed",
            "automargin": True,
            "tickvals": places,
            "ticktext": [html.escape(word) for word, _ in rows],  # Plotly interprets <b> and similar as markup
        },
        margin={"l": 20, "r": 60, "t": 20, "b": 60},
    )
    return Figure(plot, Table(("word", axis), [(word, f"{value:.4f}") for word, value in rows]))


def axis_plane(words: Sequence[str], points: Sequence[tuple[float, float]], axes: tuple[str, str]) -> SearchableMap:
    """Each word at its place on both axes; the lines are the zeros of the axes."""
    figure = embedding_map(words, points, [html.escape(axis) for axis in axes])
    figure.plot.update_xaxes(zeroline=True, zerolinecolor=COLOURS[-1], zerolinewidth=1)
    figure.plot.update_yaxes(zeroline=True, zerolinecolor=COLOURS[-1], zerolinewidth=1)
    return SearchableMap(figure.plot, Table(("word", *axes), figure.table.rows))
