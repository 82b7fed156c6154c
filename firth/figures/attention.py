"""Who looks at whom: one head in full, every layer and head as thumbnails, lines between tokens, entropy by layer and head.

Rows are queries, who looks; columns are keys, at what.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firth.errors import DataError
from firth.figures.alignment import visible
from firth.figures.figure import COLOURS, Figure, Table

# White to blue: lightness alone carries the value, so that it reads the same for every colour vision and in print.
BLUES = [[0.0, "#FFFFFF"], [1.0, COLOURS[0]]]
_SIZE, _LARGEST_CELL = 720, 30  # pixels
_TICKS = 60  # names along an axis; of more tokens every second, third … is named
_NAMED = 128  # tokens up to which every cell tells its two by name; of more it tells their places
_LISTED = 1 << 14  # cells up to which they are handed over as lists; Plotly takes seconds to check longer ones
_EVERY_PAIR = 64  # tokens up to which the table has every pair; of more, the strongest of each query
_STRONGEST = 8
_LEAST, _LEVELS = 0.05, 10  # lines: weights below are left out; the others have one of so many strengths


@dataclass(frozen=True)
class HeadFacts:
    """What a head is like, the mean over its rows."""

    layer: int
    head: int
    entropy: float
    maximum: float
    distance: float


def shown(token: str) -> str:
    """A token as Plotly may be given it: white space visible, and no markup, whatever it is spelled like."""
    return html.escape(visible(token))


def token_axis(tokens: Sequence[str]) -> dict[str, Any]:
    """Numbered, not named by its tokens: a token may occur twice."""
    every = math.ceil(len(tokens) / _TICKS)
    places = list(range(0, len(tokens), every))
    return {"tickvals": places, "ticktext": [shown(tokens[n]) for n in places], "showgrid": False, "zeroline": False}


def cells(z: npt.ArrayLike, digits: int = 5) -> Any:
    """Numbers as Plotly takes them: lists where they are few, an array where they are many; what is not a number is a gap."""
    rounded = np.asarray(z, np.float64).round(digits)
    if rounded.size > _LISTED:
        return rounded.astype(np.float32)
    return [[None if math.isnan(value) else value for value in row] for row in rounded.tolist()]


def attention_map(queries: Sequence[str], keys: Sequence[str], weights: npt.ArrayLike, title: str) -> Figure:
    """One map in full: a row for each query, its cells the bluer, the more it takes."""
    import plotly.graph_objects as go

    p_QK = _fitting(queries, keys, weights)
    above, beside = ([shown(token) for token in tokens] for tokens in (keys, queries))
    named = max(len(queries), len(keys)) <= _NAMED
    places = "query %{y}, key %{x}<br>"
    plot = go.Figure(
        go.Heatmap(
            z=cells(p_QK),
            hovertext=[[f"{row} → {column}" for column in above] for row in beside] if named else None,
            hovertemplate=("%{hovertext}<br>" if named else places) + "%{z:.4f}<extra></extra>",
            colorscale=BLUES,
            zmin=0,
            zmax=float(p_QK.max()) or 1,
            colorbar={"title": "p", "thickness": 12, "outlinewidth": 1},
        )
    )
    plot.update_xaxes(**token_axis(keys), side="top", tickangle=-60)
    plot.update_yaxes(**token_axis(queries), autorange="reversed")
    cell = min(_LARGEST_CELL, _SIZE / max(len(queries), len(keys)))
    left, top = (30 + 7 * max(map(len, tokens)) for tokens in (queries, keys))
    plot.update_layout(
        template="plotly_white",
        title={"text": html.escape(title), "x": 0.01, "xanchor": "left"},
        margin={"l": left, "r": 20, "t": top + 50, "b": 20},
        width=max(360, left + 120 + int(cell * len(keys))),
        height=top + 70 + max(40, int(cell * len(queries))),
    )
    return Figure(plot, Table(("query", "at", "key", "at", "weight"), list(_pairs(queries, keys, p_QK))))


def attention_overview(layers: Sequence[int], thumbnails: npt.ArrayLike, facts: Sequence[HeadFacts]) -> Figure:
    """All maps in one: a band of rows for each layer, in it a square for each head. Each is drawn from white to its own largest
    cell, so that faint ones show what they do; how strong they are is in the table.

    The square of layer l and head h begins in row l·(r + 1) and column h·(c + 1), where thumbnails have r rows and c columns."""
    import plotly.graph_objects as go

    p_LHrc = np.asarray(thumbnails, np.float64)
    _, heads, rows, columns = p_LHrc.shape
    largest = p_LHrc.max((2, 3), keepdims=True)
    share_LHrc = p_LHrc / np.where(largest > 0, largest, 1)
    spaced_LHrc = np.pad(share_LHrc, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=np.nan)
    z = spaced_LHrc.transpose(0, 2, 1, 3).reshape(len(layers) * (rows + 1), heads * (columns + 1))[:-1, :-1]
    bar = {"title": "share of<br>its largest", "thickness": 12, "outlinewidth": 1}
    plot = go.Figure(go.Heatmap(z=cells(z, 3), colorscale=BLUES, zmin=0, zmax=1, hoverinfo="none", colorbar=bar))
    marks = {"showgrid": False, "zeroline": False, "ticks": ""}
    plot.update_xaxes(tickvals=_middles(heads, columns), ticktext=[f"head {head}" for head in range(heads)], side="top", **marks)
    plot.update_yaxes(
        tickvals=_middles(len(layers), rows), ticktext=[f"layer {layer}" for layer in layers], autorange="reversed", **marks
    )
    plot.update_layout(
        template="plotly_white",
        plot_bgcolor="#999999",  # what shows between the squares
        margin={"l": 70, "r": 20, "t": 50, "b": 20},
        width=190 + _extent(heads),
        height=70 + _extent(len(layers)),
    )
    table = [(f"{one.layer}", f"{one.head}", f"{one.entropy:.4f}", f"{one.maximum:.4f}", f"{one.distance:.2f}") for one in facts]
    return Figure(plot, Table(("layer", "head", "mean entropy, nats", "mean largest weight", "mean distance"), table))


def attention_lines(queries: Sequence[str], keys: Sequence[str], weights: npt.ArrayLike, title: str) -> Figure:
    """Queries at the left, keys at the right, a line wherever a weight is 0.05 or more: the darker and the thicker, the more."""
    import plotly.graph_objects as go

    p_QK = _fitting(queries, keys, weights)
    drawn = [(int(q), int(k), float(p_QK[q, k])) for q, k in zip(*np.nonzero(p_QK >= _LEAST), strict=True)]
    plot = go.Figure()
    for level in range(_LEVELS):
        some = [(q, k) for q, k, p in drawn if _level(p) == level]
        if some:
            strength = (level + 1) / _LEVELS
            plot.add_scatter(
                x=[x for _ in some for x in (0, 1, None)],
                y=[y for q, k in some for y in (q, k, None)],  # None lifts the pen
                mode="lines",
                opacity=strength,
                line={"color": COLOURS[0], "width": 1 + 3 * strength},
                name=f"{level / _LEVELS:.1f} – {strength:.1f}",
                hoverinfo="skip",
            )
    for x, tokens, side in ((-0.03, queries, "middle left"), (1.03, keys, "middle right")):
        words, down = [shown(token) for token in tokens], list(range(len(tokens)))
        plot.add_scatter(
            x=[x] * len(words), y=down, mode="text", text=words, textposition=side, showlegend=False, hoverinfo="skip"
        )
    plot.update_xaxes(visible=False, range=[-0.6, 1.6])
    plot.update_yaxes(visible=False, autorange="reversed")
    plot.update_layout(
        template="plotly_white",
        title={"text": html.escape(f"{title}: who looks, and at what"), "x": 0.01, "xanchor": "left"},
        legend={"title": {"text": "weight"}, "traceorder": "reversed"},
        margin={"l": 20, "r": 20, "t": 50, "b": 20},
        width=640,
        height=max(340, 90 + 22 * max(len(queries), len(keys))),
    )
    rows = [(visible(queries[q]), f"{q}", visible(keys[k]), f"{k}", f"{p:.4f}") for q, k, p in drawn]
    return Figure(plot, Table(("query", "at", "key", "at", "weight"), rows))


def entropy_map(layers: Sequence[int], entropy_LH: npt.ArrayLike, keys: int) -> Figure:
    """How spread each head looks: 0, one key at a time, to ln K, all alike."""
    import plotly.graph_objects as go

    entropy, most = np.asarray(entropy_LH, np.float64), math.log(keys) or 1.0
    heat = go.Heatmap(
        z=cells(entropy),
        colorscale="Cividis",
        zmin=0,
        zmax=most,
        xgap=1,
        ygap=1,
        hovertemplate="layer %{y}, head %{x}<br>%{z:.3f} nats<extra></extra>",
        colorbar={"title": "nats", "thickness": 12, "outlinewidth": 1},
    )
    plot = go.Figure(heat)
    plot.update_xaxes(tickvals=list(range(entropy.shape[1])), title_text="head", showgrid=False, zeroline=False)
    plot.update_yaxes(
        tickvals=list(range(len(layers))),
        ticktext=[str(layer) for layer in layers],
        title_text="layer",
        autorange="reversed",
        showgrid=False,
        zeroline=False,
    )
    plot.update_layout(
        template="plotly_white",
        title={"text": f"entropy of attention: 0 is one key, {most:.2f} is all {keys} alike", "x": 0.01, "xanchor": "left"},
        margin={"l": 60, "r": 20, "t": 60, "b": 50},
        width=max(420, 200 + 36 * entropy.shape[1]),
        height=130 + max(120, 36 * len(layers)),
    )
    rows = [
        (f"{layer}", f"{head}", f"{value:.4f}")
        for layer, row in zip(layers, entropy.tolist(), strict=True)
        for head, value in enumerate(row)
    ]
    return Figure(plot, Table(("layer", "head", "mean entropy, nats"), rows))


def entropy_text(layers: Sequence[int], entropy_LH: npt.ArrayLike) -> str:
    """A line for each layer, a number for each head."""
    entropy = np.asarray(entropy_LH, np.float64)
    head = "".join(f"{f'head {n}':>9}" for n in range(entropy.shape[1]))
    rows = [f"layer {layer:>3}" + "".join(f"{value:>9.3f}" for value in row) for layer, row in zip(layers, entropy, strict=True)]
    return "\n".join(["mean entropy of attention, nats: 0 is one key at a time", " " * 9 + head, *rows])


def _pairs(
    queries: Sequence[str], keys: Sequence[str], p_QK: npt.NDArray[np.float64]
) -> Iterator[tuple[str, str, str, str, str]]:
    some = len(keys) if max(p_QK.shape) <= _EVERY_PAIR else _STRONGEST
    order_QK = np.argsort(-p_QK, axis=1, kind="stable")[:, :some]
    for q, places in enumerate(order_QK.tolist()):
        for k in sorted(places) if some == len(keys) else places:
            yield visible(queries[q]), f"{q}", visible(keys[k]), f"{k}", f"{p_QK[q, k]:.4f}"


def _middles(count: int, side: int) -> list[float]:
    """Where so many squares of so many cells have their middles, a cell between two."""
    return [n * (side + 1) + (side - 1) / 2 for n in range(count)]


def _extent(count: int) -> int:
    """Pixels for so many squares side by side: large where they are few, and never so small that nothing is seen."""
    return count * max(60, min(160, _SIZE // count))


def _level(p: float) -> int:
    return min(_LEVELS - 1, max(0, math.ceil(p * _LEVELS) - 1))


def _fitting(queries: Sequence[str], keys: Sequence[str], weights: npt.ArrayLike) -> npt.NDArray[np.float64]:
    p_QK = np.asarray(weights, np.float64)
    if p_QK.shape != (len(queries), len(keys)) or not p_QK.size:
        raise DataError(
            f"weights are {p_QK.shape} for {len(queries)} queries and {len(keys)} keys; expected a row for each query and in "
            "it a weight for each key; pass the tokens that the model saw, specials included"
        )
    return p_QK
