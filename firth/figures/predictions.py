"""A model's predictions at each position of a text: the text coloured by surprisal, and a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firth.figures.alignment import visible
from firth.figures.attention import cells, shown
from firth.figures.figure import BLUES, WRITTEN, Figure, Number, Table, colour_bar, escaped, lay_out

_LINE = 100  # characters of text in a row of the strip
_MOST_BITS = 12.0  # the darkest colour; a probability below 1 in 4,096 looks the same

Likely = Sequence[tuple[str, float]]


def surprisal_strip(
    tokens: Sequence[str],
    surprisal: Sequence[float] | Any,
    probability: Sequence[float] | Any,
    rank: Sequence[int] | Any,
    entropy: Sequence[float] | Any,
    top: Sequence[Likely],
) -> Figure:
    """The text in rows of cells, one cell per token: white is certain, dark blue is a surprisal of 12 bits or more."""
    import plotly.graph_objects as go

    columns = _columns(tokens)
    rows = -(-len(tokens) // columns) or 1
    blank = [""] * (rows * columns - len(tokens))
    hover = [
        f"{shown(token)}<br>p = {p:.4f}, rank {place}<br>{bits:.2f} bits<br>expected: {_expected(likely)}"
        for token, p, place, bits, likely in zip(tokens, probability, rank, surprisal, top, strict=True)
    ]
    plot = go.Figure(
        go.Heatmap(
            z=cells(_wrapped([*map(float, surprisal), *([float("nan")] * len(blank))], columns)),
            text=_wrapped([*map(shown, tokens), *blank], columns),
            texttemplate="%{text}",
            textfont=WRITTEN,
            hovertext=_wrapped([*hover, *blank], columns),
            hovertemplate="%{hovertext}<extra></extra>",
            colorscale=BLUES,
            zmin=0,
            zmax=_MOST_BITS,
            xgap=1,
            ygap=3,
            colorbar=colour_bar("bits"),
        )
    )
    plot.update_xaxes(visible=False)
    plot.update_yaxes(visible=False, autorange="reversed")
    lay_out(plot, (20, 20, 50, 20), 960, 110 + 34 * rows, heading="surprisal of each token: −log₂ p")
    table = [
        (Number(at), visible(token), Number(p, ".6f"), Number(place), Number(bits, ".4f"), Number(spread, ".4f"), _named(likely))
        for at, (token, p, place, bits, spread, likely) in enumerate(
            zip(tokens, probability, rank, surprisal, entropy, top, strict=True)
        )
    ]
    return Figure(plot, Table(("at", "token", "probability", "rank", "surprisal, bits", "entropy, nats", "expected"), table))


def predictions_text(
    tokens: Sequence[str],
    surprisal: Sequence[float] | Any,
    probability: Sequence[float] | Any,
    rank: Sequence[int] | Any,
    top: Sequence[Likely],
    then: Likely,
    width: int = 80,
) -> str:
    """One line per token, ending with the most probable tokens at its position; the last line predicts the next token."""
    from rich.cells import set_cell_size

    lines = [f"{'came':<14}{'p':>9}{'rank':>7}{'bits':>8}  expected"]
    for token, bits, p, place, likely in zip(tokens, surprisal, probability, rank, top, strict=True):
        lines.append(f"{set_cell_size(visible(token), 13)} {p:>9.4f}{place:>7}{bits:>8.2f}  {_named(likely)}")
    if then:
        lines.append(f"{'next':<38}  {_named(then)}")
    return "\n".join(set_cell_size(line, width).rstrip() for line in lines)


def _columns(tokens: Sequence[str]) -> int:
    """Cells per row. All cells are equally wide, enough for 90 % of the tokens."""
    lengths = sorted(len(token) for token in tokens) or [1]
    usual = lengths[int(0.9 * (len(lengths) - 1))]
    return max(1, min(len(tokens), _LINE // (usual + 2)))


def _wrapped(values: Sequence[Any], columns: int) -> list[list[Any]]:
    return [list(values[start : start + columns]) for start in range(0, max(1, len(values)), columns)]


def _expected(likely: Likely) -> str:
    return escaped(_named(likely))


def _named(likely: Likely) -> str:
    return ", ".join(f"{visible(token)} {p:.3f}" for token, p in likely)
