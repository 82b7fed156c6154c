"""Words on one axis as bars, or on two axes as points."""

from __future__ import annotations

from collections.abc import Sequence

from firth.figures.figure import COLOURS, Figure, Table, escaped
from firth.figures.ranking import ranking
from firth.figures.word_map import SearchableMap, embedding_map

_BLUE, _ORANGE = COLOURS[:2]


def axis_bars(rows: Sequence[tuple[str, float]], axis: str) -> Figure:
    """One bar per word, the first at the top: to the right in blue where the cosine is positive, to the left in orange."""
    figure = ranking(rows, axis, _BLUE, negative=_ORANGE)
    figure.plot.update_traces(text=[f"{value:.2f}" for _, value in rows])
    figure.plot.update_xaxes(zeroline=True, zerolinecolor=COLOURS[-1])
    return figure


def axis_plane(words: Sequence[str], points: Sequence[tuple[float, float]], axes: tuple[str, str]) -> SearchableMap:
    """Each word at its place on both axes; the lines are the zeros of the axes."""
    figure = embedding_map(words, points, [escaped(axis) for axis in axes])
    figure.plot.update_xaxes(zeroline=True, zerolinecolor=COLOURS[-1], zerolinewidth=1)
    figure.plot.update_yaxes(zeroline=True, zerolinecolor=COLOURS[-1], zerolinewidth=1)
    return SearchableMap(figure.plot, Table(("word", *axes), figure.table.rows))
