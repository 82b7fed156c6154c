"""Attention dynamics: the tokens with a slider over the layers, and statistics against depth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from firth.figures.figure import COLOURS, Figure, Number, Table, escaped, lay_out, line_style

_FRAMES = 60  # layers drawn of many, including the first and the last,
_BEGINNING = 20  # and besides them each of the first layers, in which most happens


@dataclass(frozen=True)
class LayerStatistics:
    """Statistics of the points at each layer, the initial points included."""

    effective_rank: tuple[float, ...]
    mean_distance: tuple[float, ...]  # over all pairs, divided by growth^layer
    clusters: tuple[int, ...]
    attention_rank: tuple[float, ...] = ()  # effective rank of the matrix α at these points; empty without a Q
    growth: float = 1.0  # of the points per layer, which is divided out of distances

    @property
    def per_layer(self) -> str:
        """How distances are measured where points grow."""
        return "" if self.growth == 1 else f", divided by {self.growth:.4g} per layer,"


def points(v_Lnd: Any, growth: float = 1.0) -> Figure:
    """A scatter plot of the tokens with a slider over depth, and of V⁽⁰⁾, where they began.

    In more than two dimensions, projected to the first two principal directions over all layers. Each layer is divided by
    `growth`^layer, so that points that grow stay in the picture."""
    import plotly.graph_objects as go

    shown_Lnd = np.asarray(v_Lnd, np.float64)
    v_Ln2, axes = _plane(shown_Lnd * growth ** -np.arange(len(shown_Lnd), dtype=np.float64)[:, None, None])
    if growth != 1:
        first, second = (axis and f"{axis} / {growth:.4g}^layer" for axis in axes)
        axes = (first, second)
    spread = np.linspace(0, len(v_Ln2) - 1, _FRAMES).round().astype(int)
    chosen = sorted({*spread.tolist(), *range(min(_BEGINNING, len(v_Ln2)))})
    edge = 1.05 * float(np.abs(v_Ln2[chosen]).max() or 1.0)
    frames = [go.Frame(name=str(n), data=[{"x": v_Ln2[n, :, 0].tolist(), "y": v_Ln2[n, :, 1].tolist()}]) for n in chosen]
    beginning = {"x": v_Ln2[0, :, 0].tolist(), "y": v_Ln2[0, :, 1].tolist(), "mode": "markers"}
    began = {**beginning, "marker": {"color": "rgba(128, 128, 128, 0.35)", "size": 6}, "hoverinfo": "skip", "name": "V⁽⁰⁾"}
    plot = go.Figure(
        data=[{**beginning, "marker": {"color": COLOURS[0], "size": 8}, "name": "tokens", "zorder": 1}, began], frames=frames
    )
    steps = [
        {"label": str(n), "method": "animate", "args": [[str(n)], {"mode": "immediate", "frame": {"redraw": False}}]}
        for n in chosen
    ]
    plot.update_xaxes(range=[-edge, edge], title=axes[0])
    plot.update_yaxes(range=[-edge, edge], title=axes[1], scaleanchor="x")
    lay_out(
        plot,
        (60, 20, 20, 60),
        height=560,
        showlegend=False,
        sliders=[{"steps": steps, "currentvalue": {"prefix": "layer "}}],
    )
    rows = [
        (Number(n), Number(i), Number(x, ".6g"), Number(y, ".6g")) for n in chosen for i, (x, y) in enumerate(v_Ln2[n].tolist())
    ]
    return Figure(plot, Table(("layer", "token", *axes), rows))


def over_depth(curves: Mapping[str, LayerStatistics]) -> Figure:
    """Effective rank, mean distance and number of clusters against depth, one line per system or model; also the effective rank
    of the attention weights, for those that have it."""
    from plotly.subplots import make_subplots

    with_attention = any(of.attention_rank for of in curves.values())
    titles = ("effective rank", "mean distance", "clusters", *(("rank of the attention weights",) if with_attention else ()))
    plot = make_subplots(rows=2 if with_attention else 1, cols=2 if with_attention else 3, subplot_titles=titles)
    places = [(row, column) for row in (1, 2) for column in (1, 2)] if with_attention else [(1, 1), (1, 2), (1, 3)]
    for n, (name, of) in enumerate(curves.items()):
        drawn = (of.effective_rank, of.mean_distance, of.clusters, of.attention_rank)
        for k, (values, (row, column)) in enumerate(zip(drawn, places, strict=False)):
            shown = {"name": escaped(name), "legendgroup": name, "showlegend": k == 0}
            place = {"row": row, "col": column}
            plot.add_scatter(x=list(range(len(values))), y=list(values), mode="lines", line=line_style(n), **place, **shown)
    plot.update_xaxes(title_text="layer")
    lay_out(plot, (40, 20, 40, 60), height=620 if with_attention else 360)
    rows: list[tuple[str, ...]] = []
    for name, of in curves.items():
        alphas: list[str] = [Number(rank, ".4f") for rank in of.attention_rank]
        columns = zip(of.effective_rank, of.mean_distance, of.clusters, alphas or [""] * len(of.clusters), strict=True)
        for layer, (rank, distance, groups, of_alpha) in enumerate(columns):
            cells = (name, Number(layer), Number(rank, ".4f"), Number(distance, ".6g"), Number(groups))
            rows.append((*cells, of_alpha) if with_attention else cells)
    return Figure(plot, Table(("system", "layer", *titles), rows))


def _plane(v_Lnd: Any) -> tuple[Any, tuple[str, str]]:
    width = v_Lnd.shape[2]
    if width == 2:
        return v_Lnd, ("dimension 1", "dimension 2")
    if width == 1:
        return np.concatenate((v_Lnd, np.zeros_like(v_Lnd)), axis=2), ("dimension 1", "")
    _, _, direction_rd = np.linalg.svd(v_Lnd.reshape(-1, width), full_matrices=False)
    return v_Lnd @ direction_rd[:2].T, ("principal direction 1", "principal direction 2")
