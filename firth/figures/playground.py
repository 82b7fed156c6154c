"""The steps of attention with all their numbers: as heat maps, and as tables for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firth.errors import DataError
from firth.figures.figure import BLUES, DIVERGING, SIGNS, WRITTEN, Figure, Number, Table, escaped, lay_out, ticks
from firth.figures.masks_and_positions import Rows

_CELL, _SMALL_CELL = 58, 20  # pixels
_NARROWEST = 420  # pixels, room for a title
_WRITTEN = 12  # largest number of columns with numbers in the cells
_LONGEST = 16  # characters of a row or column label
_MINUS_INFINITY = "−∞"


@dataclass(frozen=True)
class Panel:
    """One step: one row per query, one column per key, −inf where masked. `share`: its values are from 0 to 1."""

    name: str
    equation: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Rows
    share: bool
    tokens: Mapping[str, str] = field(default_factory=dict)  # whose tokens the axes have, for the lab: see figures/attention.py
    edge: float | None = None  # the number with the deepest colour; by default the largest here


def panel_figure(panel: Panel) -> Figure:
    """A single step without its title and the legend, which the caller shows."""
    figure = panels_figure([panel])
    figure.plot.layout.annotations = ()
    margin = {"t": 34, "b": 60}
    figure.plot.update_layout(margin=margin, height=figure.plot.layout.height - 76, meta={"tokens": dict(panel.tokens)})
    return figure


def panels_figure(panels: Sequence[Panel]) -> Figure:
    """All steps below each other, each under its equation."""
    from plotly.subplots import make_subplots

    for panel in panels:
        _refuse_misfit(panel)
    heights = [len(panel.rows) * _cell(panel) for panel in panels]
    widest = max(_NARROWEST, *(len(panel.columns) * _cell(panel) for panel in panels))
    left = 30 + 8 * max(len(_label(row)) for panel in panels for row in panel.rows)
    gap, top = 110, 80
    height = sum(heights) + gap * (len(panels) - 1)
    plot = make_subplots(
        len(panels),
        1,
        subplot_titles=[f"<b>{escaped(panel.name)}</b>  {escaped(panel.equation)}" for panel in panels],
        row_heights=heights,
        vertical_spacing=gap / height if len(panels) > 1 else 0,
    )
    for n, panel in enumerate(panels, start=1):
        for trace in (_cells(panel), *_forbidden(panel)):
            plot.add_trace(trace, n, 1)
        columns, rows = ([escaped(_label(word)) for word in words] for words in (panel.columns, panel.rows))
        plot.update_xaxes(**ticks(columns), side="bottom", range=[-0.5, widest / _cell(panel) - 0.5], row=n, col=1)
        plot.update_yaxes(**ticks(rows), range=[len(panel.rows) - 0.5, -0.5], row=n, col=1)
    plot.update_annotations(x=0, xanchor="left", font_size=14, yshift=6)
    below = 90
    plot.add_annotation(
        x=0, y=0, xref="paper", yref="paper", xanchor="left", yanchor="bottom", yshift=10 - below, text=SIGNS, showarrow=False
    )
    lay_out(plot, (left, 20, top, below), left + 20 + widest, top + below + height)
    return Figure(
        plot, Table(("step", "query", "key or dimension", "value"), [row for panel in panels for row in _numbers(panel)])
    )


def panels_text(panels: Sequence[Panel], width: int = 80) -> str:
    """The same for a terminal: the equation, then the numbers in rows; columns that do not fit continue below."""
    from rich.cells import cell_len, set_cell_size

    parts = []
    for panel in panels:
        _refuse_misfit(panel)
        rows, columns = [_label(row) for row in panel.rows], [_label(column) for column in panel.columns]
        margin, cell = max(map(cell_len, rows)) + 2, max(9, *(cell_len(column) + 2 for column in columns))
        each = max(1, (width - margin) // cell)
        lines = [f"{panel.name:<9}{panel.equation}"]
        for first in range(0, len(columns), each):
            some = slice(first, first + each)
            lines.append(" " * margin + "".join(_right(column, cell) for column in columns[some]))
            lines += [
                set_cell_size(row, margin) + "".join(_right(_number(value), cell) for value in values[some])
                for row, values in zip(rows, panel.values, strict=True)
            ]
        parts.append("\n".join(line.rstrip() for line in lines))
    return "\n\n".join(parts)


def _cells(panel: Panel) -> Any:
    import plotly.graph_objects as go

    seen = [abs(value) for row in panel.values for value in row if math.isfinite(value)]
    edge = 1.0 if panel.share else panel.edge or max(seen, default=0.0) or 1.0
    rows, columns = ([escaped(_label(word)) for word in words] for words in (panel.rows, panel.columns))
    return go.Heatmap(
        z=[[value if math.isfinite(value) else None for value in row] for row in panel.values],
        text=[[_number(value) for value in row] for row in panel.values],
        texttemplate="%{text}" if len(panel.columns) <= _WRITTEN else "",
        textfont=WRITTEN,
        hovertext=[[f"{row} → {column}" for column in columns] for row in rows],
        hovertemplate="%{hovertext}<br>%{text}<extra></extra>",
        name=escaped(panel.name),
        colorscale=BLUES if panel.share else DIVERGING,
        zmin=0 if panel.share else -edge,
        zmax=edge,
        xgap=1,
        ygap=1,
        showscale=False,
    )


def _forbidden(panel: Panel) -> list[Any]:
    """Labels for the masked cells: Plotly writes no text into cells without a value."""
    import plotly.graph_objects as go

    places = [(x, y) for y, row in enumerate(panel.values) for x, value in enumerate(row) if value == -math.inf]
    if not places or len(panel.columns) > _WRITTEN:
        return []
    x, y = zip(*places, strict=True)
    return [go.Scatter(x=x, y=y, text=[_MINUS_INFINITY] * len(places), mode="text", hoverinfo="skip", showlegend=False)]


def _cell(panel: Panel) -> int:
    return _CELL if len(panel.columns) <= _WRITTEN else _SMALL_CELL


def _label(word: str) -> str:
    """On one line and cut to fit; control characters become U+FFFD."""
    shown = "".join(character if character.isprintable() else "\ufffd" for character in word)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def _number(value: float) -> str:
    return _MINUS_INFINITY if value == -math.inf else f"{value:z.4g}" if abs(value) >= 1000 else f"{value:z.2f}"


def _right(text: str, cells: int) -> str:
    from rich.cells import cell_len

    return " " * max(1, cells - cell_len(text)) + text


def _numbers(panel: Panel) -> Iterator[tuple[str, str, str, str]]:
    for row, values in zip(panel.rows, panel.values, strict=True):
        for column, value in zip(panel.columns, values, strict=True):
            yield panel.name, row, column, _MINUS_INFINITY if value == -math.inf else Number(value, ".6g")


def _refuse_misfit(panel: Panel) -> None:
    widths = {len(row) for row in panel.values}
    if not panel.rows or len(panel.values) != len(panel.rows) or widths != {len(panel.columns)}:
        raise DataError(
            f"the step {panel.name} has {len(panel.values)} rows of numbers; expected {len(panel.rows)} rows of "
            f"{len(panel.columns)} numbers, one row per query"
        )
