"""The alignment of target and source words (RNNsearch's α, or a Transformer's cross-attention), as a figure and as text.

α_TS: one row per target word, one column per source word. Letters: T target, S source.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from firth.errors import DataError
from firth.figures.figure import BLUES, Figure, Number, Table, colour_bar, escaped, lay_out, ticks
from firth.figures.masks_and_positions import Rows

MOST_CELLS = 40 * 40  # of a table for a notebook; a larger matrix is a figure
_SHADES = " ░▒▓█"
_CELL = 30  # pixels
_LEGEND = "░ from 0.125, ▒ from 0.375, ▓ from 0.625, █ from 0.875"
_SEEN = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥"})


def alignment_map(source: Sequence[str], target: Sequence[str], weights: Mapping[str, Rows]) -> Figure:
    """Source words along the top, target words down the side; several matrices, such as layers and heads, get a menu."""
    import plotly.graph_objects as go
    from rich.cells import cell_len

    for alpha_TS in weights.values():
        _refuse_misfit(source, target, alpha_TS)
    above, beside = ([escaped(visible(word)) for word in words] for words in (source, target))  # <b> would be markup
    pairs = [[f"{right} ← {left}" for left in above] for right in beside]
    plot = go.Figure()
    for n, (name, alpha_TS) in enumerate(weights.items()):
        plot.add_heatmap(
            z=[list(map(float, alpha_S)) for alpha_S in alpha_TS],
            hovertext=pairs,
            hovertemplate="%{hovertext}<br>%{z:.3f}<extra></extra>",
            name=escaped(name),
            visible=n == 0,
            colorscale=BLUES,
            zmin=0,
            zmax=1,
            xgap=1,
            ygap=1,
            colorbar=colour_bar("α", tickvals=[0, 0.5, 1]),
        )
    upright = all(cell_len(word) <= 2 for word in source[:-1])  # the last is <eos>, with room on its right
    plot.update_xaxes(**ticks(above), ticklabelstandoff=4, side="top", tickangle=0 if upright else -60)
    plot.update_yaxes(**ticks(beside), ticklabelstandoff=4, autorange="reversed")
    left, top = (30 + 8 * max(map(cell_len, words)) for words in (target, source))  # pixels, for the words themselves
    menu = _menu(list(weights), top) if len(weights) > 1 else []
    top += 50 * len(menu)
    width, height = left + 100 + _CELL * len(source), top + 20 + _CELL * len(target)
    # The background is seen as grid lines; without them, white cells would have no edge.
    lay_out(plot, (left, 20, top, 20), width, height, plot_bgcolor="#999999", updatemenus=menu)
    plot.update_layout(meta={"tokens": {"x": "source", "y": "target"}})
    return Figure(plot, Table(("attention", "target", "source", "weight"), list(_numbers(source, target, weights))))


def alignment_html(source: Sequence[str], target: Sequence[str], alpha_TS: Rows, caption: str) -> str:
    """The same as a table for a notebook: the larger, the darker. Without a script, so that untrusted notebooks show it, too."""
    above, beside = ([html.escape(visible(word)) for word in words] for words in (source, target))
    head = "".join(f"<th>{word}</th>" for word in above)
    body = "".join(
        f"<tr><th>{word}</th>{''.join(map(_shaded, alpha_S))}</tr>" for word, alpha_S in zip(beside, alpha_TS, strict=True)
    )
    return f"<table><caption>{html.escape(caption)}</caption><tr><td></td>{head}</tr>{body}</table>"


def _shaded(share: float) -> str:
    ink = ";color:#fff" if share > 0.6 else ""
    return f'<td style="background:rgba(0,114,178,{share:.2f}){ink}">{share:.2f}</td>'


def alignment_text(source: Sequence[str], target: Sequence[str], alpha_TS: Rows, width: int = 80) -> str:
    """The matrix for a terminal: one line per target word, one column per source word, " ░▒▓█" from 0 to 1.

    Columns that do not fit into `width` cells continue below, with the target words repeated.
    """
    from rich.cells import cell_len, set_cell_size  # a Chinese character takes two cells, a combining accent none

    _refuse_misfit(source, target, alpha_TS)
    above, beside = ([visible(word) for word in words] for words in (source, target))
    cells_S, margin = [max(2, cell_len(word)) for word in above], max(map(cell_len, beside))
    lines = []
    for band in bands(cells_S, width - margin):
        table = [("", [above[s] for s in band])]
        table += [(word, [_shade(alpha_S[s]) * cells_S[s] for s in band]) for word, alpha_S in zip(beside, alpha_TS, strict=True)]
        for word, texts in table:
            columns = [set_cell_size(text, cells_S[s]) for text, s in zip(texts, band, strict=True)]
            lines.append(" ".join([set_cell_size(word, margin), *columns]).rstrip())
        lines.append("")
    return "\n".join([*lines, _LEGEND])


def bands(cells_S: Sequence[int], room: int) -> Iterator[list[int]]:
    """Groups of columns that fit side by side, with a space before each; at least one column per group."""
    band: list[int] = []
    for s, cells in enumerate(cells_S):
        if band and sum(cells_S[k] + 1 for k in band) + cells + 1 > room:
            yield band
            band = []
        band.append(s)
    yield band


def _shade(alpha: float) -> str:
    """The shade of a weight, clamped to 0 … 1 as in the figure."""
    return _SHADES[min(max(int(4 * alpha + 0.5), 0), 4)]


def visible(word: str) -> str:
    """White space as a visible symbol; control characters become U+FFFD."""
    shown = word.translate(_SEEN) if word.isspace() else word
    return "".join(character if character.isprintable() else "\ufffd" for character in shown) or "∅"


def _menu(names: Sequence[str], above: int) -> list[dict[str, Any]]:
    """A menu that shows one matrix at a time, `above` pixels above the cells."""
    buttons = [
        {"label": escaped(name), "method": "restyle", "args": [{"visible": [name == other for other in names]}]} for name in names
    ]
    return [{"buttons": buttons, "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "pad": {"b": above}}]


def _refuse_misfit(source: Sequence[str], target: Sequence[str], alpha_TS: Rows) -> None:
    columns = {len(alpha_S) for alpha_S in alpha_TS}
    if len(alpha_TS) != len(target) or columns - {len(source)} or not (source and target):
        given = f"{len(alpha_TS)} rows of {' or '.join(map(str, sorted(columns))) or 'no'} weights"
        raise DataError(
            f"{given} for {len(target)} target and {len(source)} source words; expected one row per target word and one weight "
            "per source word, special tokens included"
        )


def _numbers(source: Sequence[str], target: Sequence[str], weights: Mapping[str, Rows]) -> Iterator[tuple[str, str, str, str]]:
    for name, alpha_TS in weights.items():
        for right, alpha_S in zip(target, alpha_TS, strict=True):
            for left, alpha in zip(source, alpha_S, strict=True):
                yield name, visible(right), visible(left), Number(alpha, ".4f")
