"""Which classes are taken for which: the confusion matrix as a picture. Letters: C classes."""

from __future__ import annotations

import html
from collections.abc import Sequence

from firth.errors import DataError
from firth.figures.figure import Figure, Table

# Lightness alone carries the value, so that it reads the same for every colour vision and in print; light is little, as the
# paper is, and the ends are far enough apart for black and white numbers on them.
_BLUES = [[0.0, "#FFFFFF"], [1.0, "#003F6B"]]
_DARK = 0.5  # from this share on the number is white
_CELL, _LETTER = 64, 8  # pixels
_READABLE = 12  # classes; with more, numbers would not fit into the cells, and the mouse shows them


def confusion_map(labels: Sequence[str], confusion_CC: Sequence[Sequence[int]]) -> Figure:
    """A row for each true class, a column for each that was said instead; the colour is the share of the row, the number the
    count. The diagonal is what was right."""
    import plotly.graph_objects as go

    if len(confusion_CC) != len(labels) or any(len(row) != len(labels) for row in confusion_CC):
        raise DataError(
            f"{len(confusion_CC)} rows of counts for {len(labels)} classes; expected a row for each class and in it a count for "
            "each class"
        )
    names = [html.escape(label) for label in labels]  # <b> would be markup
    shares = [_shares(row) for row in confusion_CC]
    told = [
        [
            f"{true} said to be {said}: {count:,}, {share:.1%} of {true}"
            for said, count, share in zip(names, row, part, strict=True)
        ]
        for true, row, part in zip(names, confusion_CC, shares, strict=True)
    ]
    plot = go.Figure()
    plot.add_heatmap(
        z=shares,
        hovertext=told,
        hovertemplate="%{hovertext}<extra></extra>",
        colorscale=_BLUES,
        zmin=0,
        zmax=1,
        xgap=1,
        ygap=1,
        colorbar={"title": "share of<br>the row", "thickness": 12, "tickvals": [0, 0.5, 1], "outlinewidth": 1},
    )
    if len(labels) <= _READABLE:
        for down, (row, part) in enumerate(zip(confusion_CC, shares, strict=True)):
            for right, (count, share) in enumerate(zip(row, part, strict=True)):
                colour = "#FFFFFF" if share >= _DARK else "#000000"
                text = f"{count:,}<br>{share:.1%}"
                plot.add_annotation(x=right, y=down, text=text, showarrow=False, font={"color": colour, "size": 12})
    places = {
        "tickvals": list(range(len(names))),
        "ticktext": names,
        "showgrid": False,
        "zeroline": False,
    }  # a name may be a number
    plot.update_xaxes(**places, side="top", title="said", tickangle=0 if len(labels) <= 4 else -60)
    plot.update_yaxes(**places, autorange="reversed", title="true")
    margin = 60 + _LETTER * max(map(len, labels))
    plot.update_layout(
        template="plotly_white",
        plot_bgcolor="#999999",  # what shows between the cells; white ones would otherwise have no edge
        margin={"l": margin, "r": 20, "t": margin, "b": 20},
        width=margin + 140 + _CELL * len(labels),
        height=margin + 20 + _CELL * len(labels),
    )
    rows = [
        (true, said, f"{count}", f"{share:.4f}")
        for true, row, part in zip(labels, confusion_CC, shares, strict=True)
        for said, count, share in zip(labels, row, part, strict=True)
    ]
    return Figure(plot, Table(("true", "said", "texts", "share of the true class"), rows))


def _shares(row: Sequence[int]) -> list[float]:
    """Of the texts of a class; all zero where it has none."""
    total = sum(row)
    return [count / total if total else 0.0 for count in row]
