"""The states and gates of a recurrent model over a text: one row per unit, one column per token."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from firth.errors import DataError
from firth.figures.alignment import bands, visible
from firth.figures.attention import cells, shown, token_axis
from firth.figures.figure import BLUES, DIVERGING, Figure, Number, Table, colour_bar, lay_out

_OPEN = ("input", "forget", "output", "reset", "update")  # gates range from 0 (closed) to 1 (open); the others have a sign
_BARS = "▁▂▃▄▅▆▇█"


def is_open(gate: str) -> bool:
    """True if a gate ranges from 0, closed, to 1, open; a state and a candidate have a sign."""
    return gate in _OPEN


def states_map(tokens: Sequence[str], units: Sequence[int], values_uT: npt.ArrayLike, title: str, gate: str) -> Figure:
    """Heat map of a gate, from closed to open, or of a state, from orange (negative) through white to blue."""
    import plotly.graph_objects as go

    values = _fitting(tokens, units, values_uT)
    opens, most = is_open(gate), max(1.0, float(np.abs(values).max()))  # a cell state may leave −1 … 1
    named = len(tokens) <= 256
    words = [shown(token) for token in tokens]
    plot = go.Figure(
        go.Heatmap(
            z=cells(values),
            hovertext=[[f"unit {unit} at {word}" for word in words] for unit in units] if named else None,
            hovertemplate=("%{hovertext}" if named else "%{y} at token %{x}") + "<br>%{z:.3f}<extra></extra>",
            colorscale=BLUES if opens else DIVERGING,
            zmin=0 if opens else -most,
            zmax=1 if opens else most,
            colorbar=colour_bar("open" if opens else "value"),
        )
    )
    plot.update_xaxes(**token_axis(tokens), side="top", tickangle=-60)
    plot.update_yaxes(
        tickvals=list(range(len(units))), ticktext=[f"unit {unit}" for unit in units], autorange="reversed", showgrid=False
    )
    top = 80 + 7 * max(map(len, tokens))
    width, height = 200 + max(300, min(1000, 24 * len(tokens))), top + 30 + 18 * len(units)
    lay_out(plot, (80, 20, top, 20), width, height, heading=title, meta={"tokens": {"x": "text"}})
    return Figure(plot, Table(("unit", "token", "at", "value"), list(_numbers(tokens, units, values))))


def states_text(
    name: str, tokens: Sequence[str], units: Sequence[int], values_uT: npt.ArrayLike, width: int = 80, *, opens: bool = False
) -> str:
    """Bars from −1 to 1, or from 0 to 1 for a gate that `opens`, one column per token; columns that do not fit into `width`
    continue below. A cell state beyond 1 widens the scale."""
    from rich.cells import cell_len, set_cell_size

    values = _fitting(tokens, units, values_uT)
    shown_T = [visible(token) for token in tokens]
    cells_T = [max(1, cell_len(token)) for token in shown_T]
    margin = 5 + max(len(str(unit)) for unit in units)
    high = max(1.0, math.ceil(float(np.abs(values).max())))
    low = 0.0 if opens else -high
    lines = [f"{name}: units that change most; ▁ is {f'{low:g}'.replace('-', '−')}, █ is {high:g}"]
    for band in bands(cells_T, width - margin):
        lines.append("")
        lines.append(" " * margin + "".join(f" {set_cell_size(shown_T[t], cells_T[t])}" for t in band))
        for unit, row in zip(units, values, strict=True):
            bars = "".join(f" {_bar((row[t] - low) / (high - low)) * cells_T[t]}" for t in band)
            lines.append(f"{f'unit {unit}':<{margin}}{bars}")
    return "\n".join(line.rstrip() for line in lines)


def _bar(share: float) -> str:
    """From 0 to 1."""
    return _BARS[min(7, max(0, int(8 * share)))]


def _fitting(tokens: Sequence[str], units: Sequence[int], values_uT: npt.ArrayLike) -> npt.NDArray[np.float64]:
    values = np.asarray(values_uT, np.float64)
    if values.shape != (len(units), len(tokens)) or not values.size:
        raise DataError(
            f"the values have shape {values.shape}; expected one row for each of {len(units)} units and one column for each of "
            f"{len(tokens)} tokens"
        )
    return values


def _numbers(tokens: Sequence[str], units: Sequence[int], values: npt.NDArray[np.float64]) -> Iterator[tuple[str, str, str, str]]:
    for unit, row in zip(units, values.tolist(), strict=True):
        for at, value in enumerate(row):
            yield Number(unit), visible(tokens[at]), Number(at), Number(value, ".4f")
