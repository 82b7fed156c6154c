"""Figures of attention masks and position schemes.

All functions take plain numbers; docs/make_pictures.py shows how to get them from `firth.layers`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from firth.figures.figure import COLOURS, DIVERGING, Figure, Number, Table, escaped

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
        keys, queries = cells(len(z[0]), "key", lowest), cells(len(z), "query", leftmost) | {"autorange": "reversed"}
        plot.update_xaxes(**keys, row=row, col=column).update_yaxes(**queries, row=row, col=column)
    plot.update_annotations(font_size=13, yshift=4)
    dress(plot, "Attention masks: blue where the query (row) may attend to the key (column)", 920, 60 + 275 * lines, top=105)
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
    titles = (f"sinusoid p<sub>t</sub>, width {width}: a sine and a cosine per frequency", f"t as a binary number of {bits} bits")
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
    dress(plot, "Sinusoidal positions count like binary numbers: columns change more slowly from left to right", 920, 520)
    rows = [
        (Number(t), " ".join(f"{value:z.3f}" for value in wave), "".join(f"{bit:.0f}" for bit in bit_n))
        for t, (wave, bit_n) in enumerate(zip(wave_Td, bit_Tn, strict=True))
    ]
    return Figure(plot, Table(("position", "sinusoid", "bits, lowest first"), rows))


def _plain(rows: Rows) -> list[list[float]]:
    return [list(row) for row in rows]


def cells(count: int, what: str, labelled: bool = True) -> dict[str, Any]:
    """An axis of `count` numbered cells."""
    axis = {"tickvals": list(range(count)), "showgrid": False, "zeroline": False, "tickfont_size": 11}
    return axis | ({"title_text": what} if labelled else {"showticklabels": False})


def dress(plot: Any, title: str, width: int, height: int, top: int = 80) -> None:
    """Title, size and fonts of a figure."""
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
