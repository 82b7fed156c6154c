"""The masks of the three families side by side, for lesson 11."""

from __future__ import annotations

from collections.abc import Callable

from firth.figures.diagram import Box, Diagram, Label, Tone
from firth.figures.diagram.shapes import Shapes

_TOKENS, _SOURCE, _CELL, _APART = 8, 4, 24.0, 90.0
# name, rule, whether query q may attend to key k, remark below
_MASKS: tuple[tuple[str, str, Callable[[int, int], bool], str], ...] = (
    ("encoder", "every token sees every token", lambda q, k: True, ""),
    ("decoder", "k ≤ q", lambda q, k: k <= q, ""),
    (
        "encoder–decoder",
        "k ≤ q, or k in the source",
        lambda q, k: k <= q or k < _SOURCE,
        f"a source of {_SOURCE} tokens, and its target",
    ),
)


def drawings() -> dict[str, Diagram]:
    shapes: list[Shapes] = [
        Label(0, -96, "Three families, three masks", 15, "start", bold=True),
        Label(0, -76, "rows: queries q; columns: keys k; filled: the query may attend to the key", 11.5, "start", muted=True),
    ]
    for n, mask in enumerate(_MASKS):
        shapes += [shape.moved(n * (_TOKENS * _CELL + _APART), 0) for shape in _grid(*mask)]
    about = "Three grids of eight queries by eight keys: all filled; the lower triangle; the first four columns and that triangle"
    return {"three-masks": Diagram("The masks of encoder, decoder and encoder–decoder", about, tuple(shapes))}


def _grid(name: str, rule: str, sees: Callable[[int, int], bool], remark: str) -> list[Shapes]:
    shapes: list[Shapes] = [
        Label(0, -50, name, 12.5, "start", bold=True),
        Label(0, -33, rule, 11.5, "start", muted=True),
        Label(0, _TOKENS * _CELL + 16, remark or " ", 11.5, "start", muted=True),
    ]
    for q in range(_TOKENS):
        place = (q + 0.5) * _CELL
        shapes += [Label(-14, place, str(q + 1), 11.5, muted=True), Label(place, -12, str(q + 1), 11.5, muted=True)]
        for k in range(_TOKENS):
            tone: Tone = "solid" if sees(q, k) else "plain"
            shapes.append(Box(k * _CELL + 1, q * _CELL + 1, _CELL - 2, _CELL - 2, tone=tone))
    return shapes
