"""The confusion matrix of a classifier. Letters: C classes."""

from __future__ import annotations

from collections.abc import Sequence

from firth.errors import DataError
from firth.figures.figure import BLUES, WRITTEN, Figure, Number, Table, colour_bar, escaped, lay_out, ticks

_CELL, _LETTER = 64, 8  # pixels
_READABLE = 12  # classes; with more, numbers would not fit into the cells and are shown on hover only


def confusion_map(labels: Sequence[str], confusion_CC: Sequence[Sequence[int]]) -> Figure:
    """One row per true class, one column per predicted class. The colour is the share of the row, the number is the count; the
    diagonal holds the correct predictions."""
    import plotly.graph_objects as go

    if len(confusion_CC) != len(labels) or any(len(row) != len(labels) for row in confusion_CC):
        raise DataError(f"the confusion matrix has {len(confusion_CC)} rows; expected {len(labels)} rows of {len(labels)} counts")
    names = [escaped(label) for label in labels]  # <b> would be markup
    shares = [_shares(row) for row in confusion_CC]
    hover = [
        [
            f"{true} predicted as {predicted}: {count:,}, {share:.1%} of {true}"
            for predicted, count, share in zip(names, row, part, strict=True)
        ]
        for true, row, part in zip(names, confusion_CC, shares, strict=True)
    ]
    plot = go.Figure()
    written = [
        [f"{count:,}<br>{share:.1%}" for count, share in zip(row, part, strict=True)]
        for row, part in zip(confusion_CC, shares, strict=True)
    ]
    plot.add_heatmap(
        z=shares,
        text=written,
        texttemplate="%{text}" if len(labels) <= _READABLE else "",
        textfont=WRITTEN,
        hovertext=hover,
        hovertemplate="%{hovertext}<extra></extra>",
        colorscale=BLUES,
        zmin=0,
        zmax=1,
        xgap=1,
        ygap=1,
        colorbar=colour_bar("share of<br>the row", tickvals=[0, 0.5, 1]),
    )
    plot.update_xaxes(**ticks(names), side="top", title="predicted class", tickangle=0 if len(labels) <= 4 else -60)
    plot.update_yaxes(**ticks(names), autorange="reversed", title="true class")
    margin, side = 60 + _LETTER * max(map(len, labels)), _CELL * len(labels)
    # The background is seen as grid lines; without them, white cells would have no edge.
    lay_out(plot, (margin, 20, margin, 20), margin + 140 + side, margin + 20 + side, plot_bgcolor="#999999")
    rows = [
        (true, predicted, Number(count), Number(share, ".4f"))
        for true, row, part in zip(labels, confusion_CC, shares, strict=True)
        for predicted, count, share in zip(labels, row, part, strict=True)
    ]
    return Figure(plot, Table(("true class", "predicted class", "texts", "share of the true class"), rows))


def _shares(row: Sequence[int]) -> list[float]:
    """Shares of the row's total; all zero for a class without texts."""
    total = sum(row)
    return [count / total if total else 0.0 for count in row]
