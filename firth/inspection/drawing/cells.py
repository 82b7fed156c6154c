"""Recurrent cells with their gates. A cell whose wiring is not known here is a box with its equation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from firth.figures.diagram import Box, Formula, Point, Tone, Words, box_height, box_width
from firth.figures.diagram.shapes import Shapes
from firth.inspection.drawing.parts import arrow, circle, headed, line, note
from firth.inspection.drawing.sheet import Sheet
from firth.inspection.drawing.wording import say, title_of, translated
from firth.layers.recurrent import Cell, Reset
from firth.layers.recurrent.gru import GRU
from firth.layers.recurrent.lstm import LSTM
from firth.layers.recurrent.mingru import MinGRU
from firth.layers.recurrent.minlstm import MinLSTM
from firth.layers.recurrent.rnn import RNN

_GATES, _BUS = 130.0, 208.0  # heights of the row of gates, and of the line with their inputs


def cell_drawing(cell: type[Cell], reset: Reset, title: str, lines: Sequence[Words]) -> Sheet:
    """One step of the cell: the state enters on the left and leaves on the right, the input comes from below."""
    wired = _WIRED.get(cell)
    shapes = wired(cell, reset) if wired is not None else _closed(cell)
    equation: list[Words] = [Formula(cell.latex)] if cell.latex else []
    return headed(shapes, title, lines, [*equation, *_legend(cell)])


def _legend(cell: type[Cell]) -> list[Words]:
    quantities = [cell.quantity(name) for name in cell.gates if name not in cell.state]
    return [f"{one.letter}: {translated(one.title)}" for one in quantities if one.title != one.letter]


def _gate(x: float, *lines: Words, tone: Tone = "vermilion") -> Box:
    wide, high = max(54.0, box_width(lines)), max(36.0, box_height(lines))
    return Box(x - wide / 2, _GATES - high / 2, wide, high, lines, tone)


def _state(x: float, y: float, words: str) -> Shapes:
    return note(x, y, Formula(words), size=14)


def _bus(gates: Sequence[Box], with_state: bool, from_y: float = _BUS) -> list[Shapes]:
    """The inputs of all gates: x_t, and h_{t−1} where gates depend on it."""
    start, end = (-10.0 if with_state else 30.0), gates[-1].x
    shapes: list[Shapes] = [line(Point(start, _BUS), Point(end, _BUS))]
    shapes += [arrow(Point(gate.x, _BUS), gate.below()) for gate in gates]
    shapes += [arrow(Point(30, _BUS + 46), Point(30, _BUS)), _state(30, _BUS + 58, "x_t")]
    if with_state and from_y != _BUS:
        shapes.append(line(Point(start, from_y), Point(start, _BUS)))
    if with_state and from_y == _BUS:
        shapes.append(_state(-36, _BUS, "h_{t-1}"))
    return shapes


def _rnn(cell: type[Cell], reset: Reset) -> list[Shapes]:
    gate = _gate(150, "tanh", Formula("W x_t + U h_{t-1} + b"))
    out = Point(gate.right + 60, _GATES)
    return [*_bus([gate], True), gate, arrow(gate.behind(), out), _state(out.x + 18, out.y, "h_t")]


def _lstm(cell: type[Cell], reset: Reset) -> list[Shapes]:
    letter = {name: cell.quantity(name).letter for name in cell.gates}
    f, i, g, o = (
        _gate(x, Formula(sign), Formula(letter[name]))
        for x, sign, name in (
            (110, r"\sigma", "forget"),
            (220, r"\sigma", "input"),
            (340, r"\tanh", "candidate"),
            (450, r"\sigma", "output"),
        )
    )
    keep, add, write, show = circle(110, 0, "⊙"), circle(280, 0, "+"), circle(280, 62, "⊙"), circle(540, _GATES, "⊙")
    squash = Box(512, 40, 56, 28, ("tanh",), "vermilion")
    return [
        *_bus([f, i, g, o], True), f, i, g, o, keep, add, write, show, squash,
        _state(-36, 0, "c_{t-1}"), arrow(Point(-14, 0), keep.before()), arrow(keep.behind(), add.before()),
        arrow(add.behind(), Point(620, 0)), _state(636, 0, "c_t"),
        arrow(f.above(), keep.below()),
        arrow(i.above(), Point(220, 62), write.before()), arrow(g.above(), Point(340, 62), write.behind()),
        arrow(write.above(), add.below()),
        arrow(Point(540, 0), squash.above()), arrow(squash.below(), show.above()), arrow(o.behind(), show.before()),
        arrow(show.behind(), Point(620, _GATES)), _state(636, _GATES, "h_t"),
    ]  # fmt: skip


def _gru(cell: type[Cell], reset: Reset) -> list[Shapes]:
    candidate = r"W x_t + r \odot U h_{t-1}" if reset == "after" else r"W x_t + U (r \odot h_{t-1})"
    r, z = _gate(100, Formula(r"\sigma"), Formula("r")), _gate(210, Formula(r"\sigma"), Formula("z"))
    n = _gate(420, Formula(r"\tanh \quad n"), Formula(candidate))
    side = n.left - 22
    passed = arrow(r.above(), Point(100, 90), Point(side, 90), Point(side, _GATES), n.before())
    return [*_interpolated(z, n, 420, "z", "1 - z"), r, passed, *_bus([r, z, n], True, 0)]


def _mingru(cell: type[Cell], reset: Reset) -> list[Shapes]:
    z, n = _gate(140, Formula(r"\sigma"), Formula("z_t")), _gate(320, Formula("g"), Formula(r"\tilde h_t"))
    return [*_interpolated(z, n, 320, "1 - z_t", "z_t"), *_bus([z, n], False)]


def _interpolated(z: Box, n: Box, x: float, kept: str, written: str) -> list[Shapes]:
    """h_t = kept ⊙ h_{t−1} + written ⊙ n, where both are z or 1 − z."""
    keep, write, add = circle(z.x, 0, "⊙"), circle(x, 56, "⊙"), circle(x, 0, "+")
    return [
        z, n, keep, write, add,
        *_stream(keep, add, x + 150),
        arrow(z.above(), keep.below()), note(z.x - 8, 30, Formula(kept), "end", 12.5),
        arrow(Point(z.x, 56), write.before()), note(z.x + 30, 45, Formula(written), size=12.5),
        arrow(n.above(), write.below()), arrow(write.above(), add.below()),
    ]  # fmt: skip


def _minlstm(cell: type[Cell], reset: Reset) -> list[Shapes]:
    f = _gate(110, Formula("f_t/(f_t + i_t)"), Formula("f'"))
    i, n = _gate(270, Formula("i_t/(f_t + i_t)"), Formula("i'")), _gate(430, Formula("g"), Formula(r"\tilde h_t"))
    keep, add, write = circle(110, 0, "⊙"), circle(350, 0, "+"), circle(350, 56, "⊙")
    return [
        *_bus([f, i, n], False), f, i, n, keep, add, write,
        *_stream(keep, add, 540), arrow(f.above(), keep.below()), arrow(write.above(), add.below()),
        arrow(i.above(), Point(270, 56), write.before()), arrow(n.above(), Point(430, 56), write.behind()),
    ]  # fmt: skip


def _stream(keep: Box, add: Box, end: float) -> list[Shapes]:
    """The state from left to right: what is kept of it, and what is added."""
    arrows = [arrow(Point(-18, 0), keep.before()), arrow(keep.behind(), add.before()), arrow(add.behind(), Point(end, 0))]
    return [_state(-40, 0, "h_{t-1}"), *arrows, _state(end + 16, 0, "h_t")]


def _closed(cell: type[Cell]) -> list[Shapes]:
    """Only what every cell says of itself: its state, its gates, its equation."""
    gates = ", ".join(cell.quantity(name).letter for name in cell.gates)
    lines: list[Words] = [title_of(cell), *([translated(cell.about)] if cell.about else []), say("gates: {gates}", gates=gates)]
    wide = max(260.0, box_width(lines))
    one = Box(40, 0, wide, max(110.0, box_height(lines)), tuple(lines), "vermilion")
    shapes: list[Shapes] = [one, arrow(Point(one.x, one.bottom + 40), one.below()), _state(one.x, one.bottom + 54, "x_t")]
    for n, name in enumerate(cell.state):
        y, letter = one.top + one.height * (n + 1) / (len(cell.state) + 1), cell.quantity(name).letter
        shapes += [arrow(Point(-10, y), one.before(y)), arrow(one.behind(y), Point(one.right + 50, y))]
        shapes += [
            note(-18, y, say("{letter} before", letter=letter), "end", 12.5),
            note(one.right + 58, y, say("{letter} after", letter=letter), "start", 12.5),
        ]
    return shapes


_WIRED: dict[type[Cell], Callable[[type[Cell], Reset], list[Shapes]]] = {
    RNN: _rnn, LSTM: _lstm, GRU: _gru, MinGRU: _mingru, MinLSTM: _minlstm,
}  # fmt: skip
