"""Attention figures: one head, thumbnails of all layers and heads, lines between tokens, entropy by layer and head.

Rows are queries, columns are keys. Layers and heads are numbers from 0, as everywhere in Python; labels count from 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firth.errors import DataError
from firth.figures.alignment import visible
from firth.figures.figure import BLUES, COLOURS, Figure, Number, Table, colour_bar, escaped, lay_out, ticks

_SIZE, _LARGEST_CELL = 720, 30  # pixels
_TICKS = 60  # tick labels per axis; with more tokens, only every second, third … is labelled
_NAMED = 128  # up to this many tokens, hovering over a cell shows its tokens; beyond that, their positions
_LISTED = 1 << 14  # up to this many cells are passed as lists; Plotly takes seconds to check longer ones
_EVERY_PAIR = 64  # up to this many tokens, the table lists every pair; beyond that, the strongest for each query
_STRONGEST = 8
_LEAST, _LEVELS = 0.05, 10  # lines: the smallest weight drawn, and the number of line strengths


@dataclass(frozen=True)
class HeadFacts:
    """Statistics of a head, averaged over its rows."""

    layer: int
    head: int
    entropy: float
    maximum: float
    distance: float


def shown(token: str) -> str:
    """A token as a Plotly label: with visible white space, and markup escaped."""
    return escaped(visible(token))


def token_axis(tokens: Sequence[str]) -> dict[str, Any]:
    """Ticks are numbers, not tokens: a token may occur twice."""
    every = math.ceil(len(tokens) / _TICKS)
    places = list(range(0, len(tokens), every))
    return {"tickvals": places, "ticktext": [shown(tokens[n]) for n in places], "showgrid": False, "zeroline": False}


def token_names(queries: Sequence[str], keys: Sequence[str]) -> dict[str, str]:
    """Whose tokens the axes have, for the lab, which lights a token up in every figure."""
    return {"x": "text", "y": "text"} if queries == keys else {"x": "keys", "y": "queries"}


def cells(z: npt.ArrayLike, digits: int = 5) -> Any:
    """Numbers for Plotly: lists if there are few, an array if there are many; nan becomes a gap."""
    rounded = np.asarray(z, np.float64).round(digits)
    if rounded.size > _LISTED:
        return rounded.astype(np.float32)
    return [[None if math.isnan(value) else value for value in row] for row in rounded.tolist()]


def attention_map(queries: Sequence[str], keys: Sequence[str], weights: npt.ArrayLike, title: str) -> Figure:
    """One attention map: one row per query; darker blue means more weight."""
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
            colorbar=colour_bar("p"),
        )
    )
    plot.update_xaxes(**token_axis(keys), side="top", tickangle=-60)
    plot.update_yaxes(**token_axis(queries), autorange="reversed")
    cell = min(_LARGEST_CELL, _SIZE / max(len(queries), len(keys)))
    left, top = (30 + 7 * max(map(len, tokens)) for tokens in (queries, keys))
    width, height = max(360, left + 120 + int(cell * len(keys))), top + 70 + max(40, int(cell * len(queries)))
    meta = {"tokens": token_names(queries, keys)}
    lay_out(plot, (left, 20, top + 50, 20), width, height, heading=title, meta=meta)
    return Figure(plot, Table(("query", "at", "key", "at", "weight"), list(_pairs(queries, keys, p_QK))))


def attention_overview(
    layers: Sequence[int],
    thumbnails: npt.ArrayLike,
    facts: Sequence[HeadFacts],
    queries: Sequence[str] = (),
    keys: Sequence[str] = (),
) -> Figure:
    """All maps in one figure: one band of rows per layer, with a square for each head. Each square is scaled to its own largest
    cell, so that faint heads are visible, too; the table has the absolute weights. Hovering over a cell shows its tokens, unless
    there are so many that a cell stands for several.

    The square of layer l and head h starts at row l·(r + 1) and column h·(c + 1), where thumbnails have r rows and c columns."""
    import plotly.graph_objects as go

    p_LHrc = np.asarray(thumbnails, np.float64)
    _, heads, rows, columns = p_LHrc.shape
    largest = p_LHrc.max((2, 3), keepdims=True)
    share_LHrc = p_LHrc / np.where(largest > 0, largest, 1)
    spaced_LHrc = np.pad(share_LHrc, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=np.nan)
    z = spaced_LHrc.transpose(0, 2, 1, 3).reshape(len(layers) * (rows + 1), heads * (columns + 1))[:-1, :-1]
    bar = colour_bar("share of<br>maximum")
    plot = go.Figure(go.Heatmap(z=cells(z, 3), colorscale=BLUES, zmin=0, zmax=1, hoverinfo="none", colorbar=bar))
    if (rows, columns) == (len(queries), len(keys)) and z.size <= _LISTED:
        plot.update_traces(hovertext=_over_thumbnails(layers, p_LHrc, queries, keys), hoverinfo="text")
    across, down = [f"head {head + 1}" for head in range(heads)], [f"layer {layer + 1}" for layer in layers]
    plot.update_xaxes(**ticks(across) | {"tickvals": _middles(heads, columns)}, ticks="", side="top")
    plot.update_yaxes(**ticks(down) | {"tickvals": _middles(len(layers), rows)}, ticks="", autorange="reversed")
    width, height = 190 + _extent(heads), 70 + _extent(len(layers))
    lay_out(plot, (70, 20, 50, 20), width, height, plot_bgcolor="#999999")  # seen in the gaps between the squares
    table = [
        (*map(Number, (one.layer + 1, one.head + 1)), *map(_four_digits, (one.entropy, one.maximum)), Number(one.distance, ".2f"))
        for one in facts
    ]
    return Figure(plot, Table(("layer", "head", "mean entropy, nats", "mean largest weight", "mean distance"), table))


def _over_thumbnails(
    layers: Sequence[int], p_LHrc: npt.NDArray[np.float64], queries: Sequence[str], keys: Sequence[str]
) -> list[list[str]]:
    """The text of each cell of an overview, laid out as its cells are; none for the gaps."""
    above, beside = [shown(key) for key in keys], [shown(query) for query in queries]
    cells = []
    for layer, p_Hrc in zip(layers, p_LHrc, strict=True):
        for row, query in enumerate(beside):
            line: list[str] = []
            for head, p_rc in enumerate(p_Hrc):
                line += [
                    f"layer {layer + 1}, head {head + 1}<br>{query} → {key}: {p:.3f}"
                    for key, p in zip(above, p_rc[row], strict=True)
                ]
                line.append("")
            cells.append(line[:-1])
        cells.append([""] * len(cells[-1]))
    return cells[:-1]


def attention_lines(queries: Sequence[str], keys: Sequence[str], weights: npt.ArrayLike, title: str) -> Figure:
    """Queries on the left, keys on the right, and a line for each weight ≥ 0.05; darker and thicker means more weight."""
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
                y=[y for q, k in some for y in (q, k, None)],  # None separates the lines
                mode="lines",
                opacity=strength,
                line={"color": COLOURS[0], "width": 1 + 3 * strength},
                name=f"{level / _LEVELS:.1f} – {strength:.1f}",
                hoverinfo="skip",
            )
    for x, tokens, side in ((-0.03, queries, "middle left"), (1.03, keys, "middle right")):
        words, down = [shown(token) for token in tokens], list(range(len(tokens)))
        plot.add_scatter(
            x=[x] * len(words), y=down, mode="text", text=words, textposition=side, showlegend=False, hoverinfo="none"
        )
    plot.update_xaxes(visible=False, range=[-0.6, 1.6])
    plot.update_yaxes(visible=False, autorange="reversed")
    heading, height = f"{title}: queries (left) and keys (right)", max(340, 90 + 22 * max(len(queries), len(keys)))
    lay_out(plot, (20, 20, 50, 20), 640, height, heading=heading)
    plot.update_layout(legend={"title": {"text": "weight"}, "traceorder": "reversed"})
    plot.update_layout(meta={"tokens": token_names(queries, keys), "lines": True})
    rows = [(visible(queries[q]), Number(q), visible(keys[k]), Number(k), _four_digits(p)) for q, k, p in drawn]
    return Figure(plot, Table(("query", "at", "key", "at", "weight"), rows))


def entropy_map(layers: Sequence[int], entropy_LH: npt.ArrayLike, keys: int) -> Figure:
    """The mean entropy of each head: 0 if it attends to one key, ln K if it attends to all keys equally."""
    import plotly.graph_objects as go

    entropy, most = np.asarray(entropy_LH, np.float64), math.log(keys) or 1.0
    heat = go.Heatmap(
        z=cells(entropy),
        colorscale=BLUES,
        zmin=0,
        zmax=most,
        xgap=1,
        ygap=1,
        hovertext=[[f"layer {layer + 1}, head {head + 1}" for head in range(entropy.shape[1])] for layer in layers],
        hovertemplate="%{hovertext}<br>%{z:.3f} nats<extra></extra>",
        colorbar=colour_bar("nats"),
    )
    plot = go.Figure(heat)
    plot.update_xaxes(**ticks([str(head + 1) for head in range(entropy.shape[1])]), title_text="head")
    plot.update_yaxes(**ticks([str(layer + 1) for layer in layers]), title_text="layer", autorange="reversed")
    heading = f"attention entropy: 0 is a single key, {most:.2f} is uniform over {keys} keys"
    width, height = max(420, 200 + 36 * entropy.shape[1]), 130 + max(120, 36 * len(layers))
    lay_out(plot, (60, 20, 60, 50), width, height, heading=heading)
    rows = [
        (Number(layer + 1), Number(head + 1), _four_digits(value))
        for layer, row in zip(layers, entropy.tolist(), strict=True)
        for head, value in enumerate(row)
    ]
    return Figure(plot, Table(("layer", "head", "mean entropy, nats"), rows))


def entropy_text(layers: Sequence[int], entropy_LH: npt.ArrayLike) -> str:
    """One line per layer, one number per head."""
    entropy = np.asarray(entropy_LH, np.float64)
    head = "".join(f"{f'head {n + 1}':>9}" for n in range(entropy.shape[1]))
    rows = [
        f"layer {layer + 1:>3}" + "".join(f"{value:>9.3f}" for value in row) for layer, row in zip(layers, entropy, strict=True)
    ]
    return "\n".join(["mean attention entropy in nats; 0 is a single key", " " * 9 + head, *rows])


def _pairs(
    queries: Sequence[str], keys: Sequence[str], p_QK: npt.NDArray[np.float64]
) -> Iterator[tuple[str, str, str, str, str]]:
    some = len(keys) if max(p_QK.shape) <= _EVERY_PAIR else _STRONGEST
    order_QK = np.argsort(-p_QK, axis=1, kind="stable")[:, :some]
    for q, places in enumerate(order_QK.tolist()):
        for k in sorted(places) if some == len(keys) else places:
            yield visible(queries[q]), Number(q), visible(keys[k]), Number(k), _four_digits(p_QK[q, k])


def _four_digits(value: float) -> Number:
    return Number(value, ".4f")


def _middles(count: int, side: int) -> list[float]:
    """The centres of `count` squares of `side` cells, one cell apart."""
    return [n * (side + 1) + (side - 1) / 2 for n in range(count)]


def _extent(count: int) -> int:
    """Pixels for `count` squares side by side: larger if there are few, and never too small to see."""
    return count * max(60, min(160, _SIZE // count))


def _level(p: float) -> int:
    return min(_LEVELS - 1, max(0, math.ceil(p * _LEVELS) - 1))


def _fitting(queries: Sequence[str], keys: Sequence[str], weights: npt.ArrayLike) -> npt.NDArray[np.float64]:
    p_QK = np.asarray(weights, np.float64)
    if p_QK.shape != (len(queries), len(keys)) or not p_QK.size:
        raise DataError(
            f"the weights have shape {p_QK.shape} for {len(queries)} queries and {len(keys)} keys. Pass all tokens of the model, "
            "special tokens included"
        )
    return p_QK
