"""Bar charts of words: ranked by a score, or on an axis between two poles."""

from __future__ import annotations

from collections.abc import Sequence

from firth.figures.figure import COLOURS, NEGATIVE, POSITIVE, Figure, Number, Table, escaped, lay_out


def ranking(rows: Sequence[tuple[str, float]], measure: str, colour: str = COLOURS[0], negative: str | None = None) -> Figure:
    """One bar per word, the first at the top; to the left, in the colour `negative` if given, where the value is negative."""
    import plotly.graph_objects as go

    places = list(range(len(rows)))  # numbers, not words: equal words would share a bar
    plot = go.Figure(
        go.Bar(
            x=[value for _, value in rows],
            y=places,
            orientation="h",
            marker={"color": [colour if value >= 0 else negative or colour for _, value in rows]},
            text=[f"{value:.3g}" for _, value in rows],
            customdata=[word for word, _ in rows],
            hoverinfo="x",
            cliponaxis=False,
        )
    )
    words = [escaped(word) for word, _ in rows]  # Plotly interprets <b> and similar as markup
    plot.update_xaxes(title=escaped(measure))
    plot.update_yaxes(autorange="reversed", automargin=True, tickvals=places, ticktext=words)
    lay_out(plot, (20, 60, 20, 60), height=100 + 26 * len(rows))
    return Figure(plot, Table(("word", measure), [(word, Number(value, ".4f")) for word, value in rows]))


def axis_bars(rows: Sequence[tuple[str, float]], axis: str) -> Figure:
    """One bar per word, the first at the top: to the right in blue where the cosine is positive, to the left in orange."""
    figure = ranking(rows, axis, POSITIVE, negative=NEGATIVE)
    figure.plot.update_traces(text=[f"{value:.2f}" for _, value in rows])
    figure.plot.update_xaxes(zeroline=True, zerolinecolor=COLOURS[-1])
    return figure
