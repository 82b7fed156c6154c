"""A frozen matrix and its low-rank correction, for lesson 12."""

from __future__ import annotations

from firth.figures.diagram import Arrow, Box, Diagram, Formula, Label, Point

_ROOM = 34.0  # between two shapes


def drawings() -> dict[str, Diagram]:
    frozen = Box(0, 0, 150, 150, (Formula("W"), "frozen", "n × d"), tone="blue")
    up = Box(210, 0, 150, 40, (Formula("B"), "n × r, zero at first"), tone="orange")
    down = Box(230, 104, 110, 46, (Formula("A"), "r × d, random"), tone="orange")
    bottom, top = frozen.bottom + _ROOM, frozen.top - _ROOM
    plus = Box(frozen.x - 11, top - 22, 22, 22, ("+",), round=True)
    arrows = (
        Arrow((Point(frozen.x, bottom + 22), frozen.below())),
        Arrow((Point(frozen.x, bottom), Point(down.x, bottom), down.below())),
        Arrow((down.above(), up.below())),
        Arrow((frozen.above(), plus.below())),
        Arrow((up.above(), Point(up.x, plus.y), plus.behind())),
        Arrow((plus.above(), Point(plus.x, plus.top - 26))),
    )
    labels = (
        Label(frozen.x, bottom + 32, Formula("x")),
        Label(plus.x, plus.top - 36, Formula("y")),
        Label(up.x + 8, plus.y - 12, "(α / r) B A x", anchor="start"),
        Label(down.x + 8, (up.bottom + down.top) / 2, "r numbers", 11.5, "start", muted=True),
    )
    about = (
        "x passes through a frozen matrix W, and beside it through a thin matrix A to r numbers and through B back; the second "
        "result, times α / r, is added to the first and gives y."
    )
    return {"low-rank": Diagram("A frozen matrix and its low-rank correction", about, (frozen, down, up, plus, *arrows, *labels))}
