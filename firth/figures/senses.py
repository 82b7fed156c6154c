"""The cosine similarity of a word's vectors across sentences, contextual next to static, as a figure and as text.

Each matrix is N × N: the cosine between the word's vectors in sentence m and in sentence n.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from firth.errors import DataError
from firth.figures.figure import BLUES, WRITTEN, Figure, Number, Table, colour_bar, escaped, lay_out, ticks
from firth.figures.masks_and_positions import Rows

# White to blue, 0 to 1: only lightness encodes the value, so that it reads the same for all types of colour vision and in print.
_CELL = 56  # pixels
_LONGEST = 48  # characters of a sentence label
_GAP = "   "


def senses_map(word: str, sentences: Sequence[str], layers: Sequence[Rows], layer: int) -> Figure:
    """On the left the selected layer, with a menu of all layers; on the right layer 0, the static embedding."""
    from plotly.subplots import make_subplots

    for matrix in layers:
        _refuse_misfit(sentences, matrix)
    count = len(sentences)
    names = [_name(n, len(layers) - 1) for n in range(len(layers))]
    plot = make_subplots(1, 2, subplot_titles=("in context", f"static: {names[0]}"), horizontal_spacing=0.08)
    for n, matrix in enumerate(layers):
        plot.add_trace(_cells(sentences, matrix, names[n], visible=n == layer, bar=True), 1, 1)
    plot.add_trace(_cells(sentences, layers[0], names[0], visible=True, bar=False), 1, 2)
    numbers = ticks([str(n + 1) for n in range(count)])
    plot.update_xaxes(**numbers, constrain="domain").update_yaxes(**numbers, autorange="reversed")
    beside = [f"{n + 1}  {escaped(_short(sentence))}" for n, sentence in enumerate(sentences)]
    plot.update_yaxes(ticktext=beside, ticklabelstandoff=4, row=1, col=1)
    left, size = 40 + 7 * max(map(len, map(_short, sentences))), max(160, _CELL * count)
    title = f"“{escaped(word)}”: cosine similarity of its vectors across sentences"
    lay_out(plot, (left, 20, 150, 40), left + 140 + int(2.2 * size), 190 + size, title=title)
    plot.update_layout(updatemenus=_menu(names, layer))
    return Figure(plot, Table(("layer", "sentence", "other sentence", "cosine"), list(_numbers(sentences, layers, names))))


def senses_text(sentences: Sequence[str], similarity: Rows, static: Rows, layer: int, last: int, width: int = 80) -> str:
    """The numbered sentences, then both matrices: side by side, or one below the other if `width` is too small."""
    for matrix in (similarity, static):
        _refuse_misfit(sentences, matrix)
    listed = [f"{n:>3}  {_printable(sentence)}" for n, sentence in enumerate(sentences, start=1)]
    left = _block(f"in context: {_name(layer, last)}", similarity)
    right = _block(f"static: {_name(0, last)}", static)
    if len(left[0]) + len(_GAP) + len(right[0]) <= width:
        matrices = [f"{one}{_GAP}{other}".rstrip() for one, other in zip(left, right, strict=True)]
    else:
        matrices = [line.rstrip() for line in (*left, "", *right)]
    return "\n".join([*listed, "", *matrices])


def _block(title: str, matrix: Rows) -> list[str]:
    head = " " * 3 + "".join(f"{n:>7}" for n in range(1, len(matrix) + 1))
    rows = [f"{n:>3}" + "".join(f"{_cosine(value):>7}" for value in row) for n, row in enumerate(matrix, start=1)]
    lines = [title, head, *rows]
    widest = max(map(len, lines))
    return [line.ljust(widest) for line in lines]


def _cosine(value: float) -> str:
    return f"{value:.2f}".replace("-0.00", "0.00")


def _name(layer: int, last: int) -> str:
    return "layer 0, the embedding" if layer == 0 else f"layer {layer} of {last}"


def _cells(sentences: Sequence[str], matrix: Rows, name: str, *, visible: bool, bar: bool) -> Any:
    import plotly.graph_objects as go

    shown = [escaped(_short(sentence)) for sentence in sentences]
    return go.Heatmap(
        z=[list(map(float, row)) for row in matrix],
        hovertext=[[f"{one}<br>{other}" for other in shown] for one in shown],
        hovertemplate="%{hovertext}<br>%{z:.3f}<extra></extra>",
        texttemplate="%{z:.2f}",
        textfont=WRITTEN,
        name=name,
        visible=visible,
        colorscale=BLUES,
        zmin=0,
        zmax=1,
        xgap=1,
        ygap=1,
        showscale=bar,
        colorbar=colour_bar("cos", tickvals=[0, 0.5, 1]),
    )


def _menu(names: Sequence[str], layer: int) -> list[dict[str, Any]]:
    """A menu that shows one layer at a time on the left; the last trace, on the right, is always visible."""
    buttons = [
        {"label": name, "method": "restyle", "args": [{"visible": [name == other for other in names] + [True]}]} for name in names
    ]
    return [{"buttons": buttons, "active": layer, "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "pad": {"b": 30}}]


def _short(sentence: str) -> str:
    shown = _printable(sentence)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def _printable(sentence: str) -> str:
    """On one line; control characters become U+FFFD."""
    return "".join(character if character.isprintable() else "\ufffd" for character in " ".join(sentence.split()))


def _refuse_misfit(sentences: Sequence[str], matrix: Rows) -> None:
    count = len(sentences)
    if not count or len(matrix) != count or {len(row) for row in matrix} != {count}:
        raise DataError(f"{len(matrix)} rows of cosines for {count} sentences; expected {count} rows of {count} cosines")


def _numbers(sentences: Sequence[str], layers: Sequence[Rows], names: Sequence[str]) -> Iterator[tuple[str, str, str, str]]:
    for name, matrix in zip(names, layers, strict=True):
        for m, row in enumerate(matrix):
            for n in range(m + 1, len(row)):
                yield name, _printable(sentences[m]), _printable(sentences[n]), Number(row[n], ".4f")
