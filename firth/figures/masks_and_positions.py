"""Figures of attention masks and position schemes.

All functions take plain numbers; docs/make_pictures.py shows how to get them from `firth.layers`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firth.figures.figure import COLOURS, DASHES, DIVERGING, Figure, Number, Table, escaped

Rows = Sequence[Sequence[float]]

_BLUE = COLOURS[0]
_GREY, _INK = "#E6E6E6", "#222222"
_YES_NO = [[0.0, _GREY], [1.0, _BLUE]]


@dataclass(frozen=True)
class MaskGrid:
    """allowed[q][k]: whether query q may attend to key k."""

    name: str
    rule: str
    allowed: Sequence[Sequence[bool]]


def mask_grids(masks: Sequence[MaskGrid], columns: int = 4) -> Figure:
    """One small grid per mask: each row is a query; filled cells are the keys it may attend to."""
    from plotly.subplots import make_subplots

    titles = [f"<b>{escaped(mask.name)}</b><br>{escaped(mask.rule)}" for mask in masks]
    lines = math.ceil(len(masks) / columns)
    plot = make_subplots(lines, columns, subplot_titles=titles, horizontal_spacing=0.05, vertical_spacing=0.3 / lines)
    for n, mask in enumerate(masks):
        row, column = n // columns + 1, n % columns + 1
        z = [[int(cell) for cell in cells] for cells in mask.allowed]
        plot.add_heatmap(z=z, colorscale=_YES_NO, zmin=0, zmax=1, showscale=False, xgap=2, ygap=2, row=row, col=column)
        lowest, leftmost = n + columns >= len(masks), column == 1
        keys, queries = _cells(len(z[0]), "key", lowest), _cells(len(z), "query", leftmost) | {"autorange": "reversed"}
        plot.update_xaxes(**keys, row=row, col=column).update_yaxes(**queries, row=row, col=column)
    plot.update_annotations(font_size=13, yshift=4)
    _dress(plot, "Attention masks: blue where the query (row) may attend to the key (column)", 920, 60 + 275 * lines, top=105)
    rows = [
        (mask.name, Number(q), " ".join(f"{k}" for k, cell in enumerate(cells) if cell))
        for mask in masks
        for q, cells in enumerate(mask.allowed)
    ]
    return Figure(plot, Table(("mask", "query", "keys"), rows))


def sinusoid_beside_counting(wave_Td: Rows, bit_Tn: Rows) -> Figure:
    """Sinusoidal position vectors, one position per row, next to the same positions as binary numbers, lowest bit first."""
    from plotly.subplots import make_subplots

    width, bits = len(wave_Td[0]), len(bit_Tn[0])
    titles = (
        f"sinusoid p<sub>t</sub>, width {width}: a sine and a cosine per frequency",
        f"t as a binary number of {bits} bits",
    )
    plot = make_subplots(1, 2, subplot_titles=titles, column_widths=[0.74, 0.26], horizontal_spacing=0.08)
    bar = {"title": "value", "thickness": 12, "len": 0.9, "tickvals": [-1, 0, 1]}
    plot.add_heatmap(z=_plain(wave_Td), colorscale=DIVERGING, zmin=-1, zmax=1, colorbar=bar, row=1, col=1)
    plot.add_heatmap(z=_plain(bit_Tn), colorscale=DIVERGING, zmin=-1, zmax=1, showscale=False, xgap=2, row=1, col=2)
    every = max(1, width // 8)
    plot.update_xaxes(title_text="dimension, fast to slow", tickvals=list(range(0, width, every)), zeroline=False, row=1, col=1)
    plot.update_xaxes(title_text="bit, fast to slow", tickvals=list(range(bits)), zeroline=False, row=1, col=2)
    plot.update_yaxes(autorange="reversed", zeroline=False)
    plot.update_yaxes(title_text="position t", row=1, col=1)
    plot.update_annotations(font_size=13)
    _dress(plot, "Sinusoidal positions count like binary numbers: columns change more slowly from left to right", 920, 520)
    rows = [
        (Number(t), " ".join(f"{value:z.3f}" for value in wave), "".join(f"{bit:.0f}" for bit in bit_n))
        for t, (wave, bit_n) in enumerate(zip(wave_Td, bit_Tn, strict=True))
    ]
    return Figure(plot, Table(("position", "sinusoid", "bits, lowest first"), rows))


def score_by_distance(distances: Sequence[int], scores: Mapping[int, Sequence[float]]) -> Figure:
    """Rotary: the score of one q and one k against their distance, for several query positions. The first is drawn as a line,
    the others as open markers on it."""
    import plotly.graph_objects as go

    plot = go.Figure()
    for n, (place, score) in enumerate(scores.items()):
        name, colour = f"query at position {place:,}", COLOURS[n % len(COLOURS)]
        if n == 0:
            plot.add_scatter(x=list(distances), y=list(score), mode="lines", name=name, line={"color": colour})
        else:  # only every few points: touching markers would hide the line
            marker = {
                "color": colour,
                "symbol": f"{('circle', 'square', 'diamond')[n % 3]}-open",
                "size": 8,
                "line": {"width": 2},
            }
            some = slice(4 * (n - 1), None, 8)
            plot.add_scatter(x=list(distances[some]), y=list(score[some]), mode="markers", name=name, marker=marker)
    plot.update_xaxes(title_text="distance q − k")
    plot.update_yaxes(title_text="score q·k / √D after rotation")
    _dress(plot, "Rotary positions: the score depends only on the distance, not on the position", 760, 420)
    rows = [
        (Number(place), Number(distance), Number(value, "z.3f"))
        for place, score in scores.items()
        for distance, value in zip(distances, score, strict=True)
    ]
    return Figure(plot, Table(("query at", "distance", "score"), rows))


def bucket_by_distance(distances: Sequence[int], buckets: Mapping[str, Sequence[int]]) -> Figure:
    """T5: the bucket of each distance k − q, one staircase per bucketing scheme."""
    import plotly.graph_objects as go

    plot = go.Figure()
    for n, (name, bucket) in enumerate(buckets.items()):
        line = {"color": COLOURS[n % len(COLOURS)], "dash": DASHES[2 * n % len(DASHES)], "shape": "hvh", "width": 2.5}
        plot.add_scatter(x=list(distances), y=list(bucket), mode="lines", name=name, line=line)
    plot.update_xaxes(title_text="distance k − q (negative: the key is before the query)")
    plot.update_yaxes(title_text="bucket")
    _dress(plot, "T5: small distances have their own buckets, larger ones share increasingly wide buckets", 760, 420)
    rows = [
        (name, Number(distance), Number(number))
        for name, bucket in buckets.items()
        for distance, number in zip(distances, bucket, strict=True)
    ]
    return Figure(plot, Table(("buckets", "distance", "bucket"), rows))


def bias_by_distance(distances: Sequence[int], slopes: Sequence[float], bias_HR: Rows) -> Figure:
    """ALiBi: the bias that each head adds to the score at each distance, and the resulting factor of the weight."""
    from plotly.colors import sample_colorscale
    from plotly.subplots import make_subplots

    titles = ("bias added to the score", "factor of the weight, before normalisation")
    plot = make_subplots(1, 2, subplot_titles=titles, horizontal_spacing=0.1)
    # Dark to light on a perceptually uniform scale: the heads are ordered, so their colours are too.
    colours = sample_colorscale("Cividis", [0.9 * n / max(1, len(slopes) - 1) for n in range(len(slopes))])
    for n, (slope, bias) in enumerate(zip(slopes, bias_HR, strict=True)):
        line = {"color": colours[n], "dash": DASHES[n % len(DASHES)], "width": 2}
        style = {"mode": "lines", "line": line, "name": f"head {n + 1}: 1/{1 / slope:.3g}", "legendgroup": f"{n}"}
        plot.add_scatter(x=list(distances), y=list(bias), **style, row=1, col=1)
        plot.add_scatter(x=list(distances), y=[math.exp(value) for value in bias], **style, showlegend=False, row=1, col=2)
    plot.update_xaxes(title_text="distance k − q")
    plot.update_yaxes(title_text="bias", row=1, col=1)
    plot.update_yaxes(title_text="e to the bias", rangemode="tozero", row=1, col=2)
    plot.update_annotations(font_size=13)
    _dress(plot, "ALiBi: weight falls with distance; the first heads see only close tokens, the last nearly all", 920, 420)
    plot.update_layout(legend={"title": {"text": "head: slope"}, "orientation": "v", "x": 1.02, "y": 1, "itemwidth": 45})
    rows = [
        (Number(n), Number(slope, ".6g"), Number(distance), Number(value, "z.4f"))
        for n, (slope, bias) in enumerate(zip(slopes, bias_HR, strict=True))
        for distance, value in zip(distances, bias, strict=True)
    ]
    return Figure(plot, Table(("head", "slope", "distance", "bias"), rows))


def index_by_pair(index_QK: Sequence[Sequence[int]]) -> Figure:
    """Shaw: the table row that each pair of query and key uses, written into its cell."""
    import plotly.graph_objects as go

    last = max(max(row) for row in index_QK)
    z = [list(row) for row in index_QK]
    cells = go.Heatmap(
        z=z, text=z, texttemplate="%{text}", colorscale=DIVERGING, zmin=0, zmax=last, showscale=False, xgap=2, ygap=2
    )
    plot = go.Figure(cells)
    plot.update_xaxes(**_cells(len(z[0]), "key")).update_yaxes(**_cells(len(z), "query"), autorange="reversed")
    _dress(
        plot, f"Shaw: {last + 1} table rows cover all pairs;<br>distances beyond {last // 2} share the outermost rows", 500, 500
    )
    rows = [(Number(q), Number(k), Number(index)) for q, row in enumerate(index_QK) for k, index in enumerate(row)]
    return Figure(plot, Table(("query", "key", "row of the tables"), rows))


def _plain(rows: Rows) -> list[list[float]]:
    return [list(row) for row in rows]


def _cells(count: int, what: str, labelled: bool = True) -> dict[str, Any]:
    """An axis of `count` numbered cells."""
    axis = {"tickvals": list(range(count)), "showgrid": False, "zeroline": False, "tickfont_size": 11}
    return axis | ({"title_text": what} if labelled else {"showticklabels": False})


def _dress(plot: Any, title: str, width: int, height: int, top: int = 80) -> None:
    # An explicit white background, so that the figure is readable on a dark page.
    plot.update_layout(
        template="plotly_white",
        title={"text": title, "x": 0.01, "xanchor": "left", "y": 1 - 24 / height, "font_size": 16},
        font={"family": "Helvetica, Arial, sans-serif", "size": 13, "color": _INK},
        paper_bgcolor="#FFFFFF",
        plot_bgcolor="#FFFFFF",
        legend={"orientation": "h", "x": 0, "y": -0.22},
        margin={"l": 60, "r": 20, "t": top, "b": 60},
        width=width,
        height=height,
    )
    plot.update_xaxes(title_font_size=13).update_yaxes(title_font_size=13)
