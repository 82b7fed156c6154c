"""Recurrent networks unrolled over time: h_1 → h_2 → …, one row for each layer."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from firth.figures.diagram import Box, Formula, Point, Words
from firth.figures.diagram.shapes import Shapes, text_width
from firth.inspection.drawing.parts import Ends, arrow, beside, box, headed, line, note
from firth.inspection.drawing.sheet import Sheet
from firth.inspection.drawing.wording import number, of, say, title_of, translated
from firth.layers.recurrent import CELLS
from firth.layers.recurrent.cell import Cell
from firth.models.config import RecurrentConfig
from firth.models.encoder_config import AverageConfig, RecurrentEncoderConfig

_MOST = 3  # layers that are drawn one by one
_ROW = 78.0  # from one row to the next
_SPREAD = 34.0  # of the cells of two directions, on either side of the column
_RISE = 46.0  # of the backward cells above the forward ones


@dataclass(frozen=True)
class Rows:
    """Rows of boxes above each other: the shapes, the points where columns leave the last row, and its height."""

    shapes: list[Shapes]
    ends: list[Point]
    last: list[Box]  # the last cell of each row


def state_words(cell: type[Cell], t: str) -> Formula:
    """h_t, or h_t, c_t."""
    return Formula(", ".join(f"{cell.quantity(one).letter}_{{{t}}}" for one in cell.state))


def layer_numbers(depth: int) -> list[int | None]:
    """The layers that are drawn; None stands for those left out."""
    return [*range(1, depth + 1)] if depth <= _MOST else [1, None, depth]


def inputs(xs: Sequence[float], tokens: Sequence[Words], embedding: str) -> tuple[list[Shapes], list[Point]]:
    """A row of tokens and their embeddings."""
    shapes: list[Shapes] = []
    ends = []
    for x, token in zip(xs, tokens, strict=True):
        one = box(x, -40, [embedding], "sky")
        shapes += [note(x, -6, token, size=13), arrow(Point(x, -16), one.below()), one]
        ends.append(one.above())
    return shapes, ends


def one_way(
    xs: Sequence[float], starts: Sequence[Point], cell: type[Cell], depth: int, *, before: Words | None = None,
    behind: bool = True,
) -> Rows:  # fmt: skip
    """Layers in one direction. `before`: the state before the first step; `behind`: the text goes on after the last column."""
    shapes: list[Shapes] = []
    points, last = list(starts), []
    for layer in layer_numbers(depth):
        bottom = points[0].y - 28
        if layer is None:
            for n, (x, start) in enumerate(zip(xs, points, strict=True)):
                shapes += [line(start, Point(x, bottom + 6)), note(x, bottom - 6, "⋮", size=16)]
                points[n] = Point(x, bottom - 20)
            continue
        cells = [box(x, bottom, [title_of(cell)], "vermilion", 76) for x in xs]
        shapes += [arrow(start, one.below()) for start, one in zip(points, cells, strict=True)]
        shapes += [*cells, *_chain(cells, cell, before, behind)]
        points = [one.above() for one in cells]
        last.append(cells[-1])
    return Rows(shapes, points, last)


def _chain(cells: Sequence[Box], cell: type[Cell], before: Words | None, behind: bool) -> list[Shapes]:
    """The states that pass from cell to cell."""
    shapes: list[Shapes] = []
    for n, (one, other) in enumerate(itertools.pairwise(cells)):
        shapes += [arrow(one.behind(), other.before())]
        shapes.append(note((one.right + other.left) / 2, one.y - 11, state_words(cell, str(n + 1))))
    if before is not None:
        wide = text_width(before, 11.5)
        shapes += [
            arrow(Point(cells[0].left - 30, cells[0].y), cells[0].before()),
            note(cells[0].left - 36 - wide / 2, cells[0].y, before),
        ]
    if behind:
        end = Point(cells[-1].right + 52, cells[-1].y)
        shapes += [arrow(cells[-1].behind(), end), note(end.x + 12, end.y, "…", size=14)]
        shapes.append(note((cells[-1].right + end.x) / 2, end.y - 11, state_words(cell, str(len(cells)))))
    return shapes


def both_ways(xs: Sequence[float], starts: Sequence[Point], cell: type[Cell], depth: int, behind: bool = True) -> Rows:
    """Layers in both directions, whose states stand side by side above them."""
    shapes: list[Shapes] = []
    points: list[Point] = list(starts)
    for layer in layer_numbers(depth):
        y = points[0].y - 22
        if layer is None:
            for n, (x, start) in enumerate(zip(xs, points, strict=True)):
                shapes += [line(start, Point(x, y + 6)), note(x, y - 6, "⋮", size=16)]
                points[n] = Point(x, y - 20)
            continue
        forward = [box(x - _SPREAD, y - 14, ["→"], "vermilion", 46) for x in xs]
        backward = [box(x + _SPREAD, y - 14 - _RISE, ["←"], "vermilion", 46) for x in xs]
        joined = backward[0].top - 18
        for n, (start, one, other) in enumerate(zip(points, forward, backward, strict=True)):
            shapes += [line(start, Point(start.x, y)), arrow(Point(start.x, y), Point(one.x, y), one.below())]
            shapes += [arrow(Point(start.x, y), Point(other.x, y), other.below()), one, other]
            shapes += [line(one.above(), Point(one.x, joined), Point(start.x, joined))]
            shapes += [line(other.above(), Point(other.x, joined), Point(start.x, joined))]
            points[n] = Point(start.x, joined)
        shapes += [arrow(one.behind(), other.before()) for one, other in itertools.pairwise(forward)]
        shapes += [arrow(other.before(), one.behind()) for one, other in itertools.pairwise(backward)]
        if behind:
            shapes += [
                arrow(forward[-1].behind(), Point(forward[-1].right + 96, forward[-1].y)),
                note(forward[-1].right + 108, forward[-1].y, "…", size=14),
            ]
            shapes += [
                arrow(Point(backward[-1].right + 28, backward[-1].y), backward[-1].behind()),
                note(backward[-1].right + 40, backward[-1].y, "…", size=14),
            ]
    return Rows(shapes, points, [])


def language_drawing(config: RecurrentConfig, title: str, ends: Ends) -> Sheet:
    """A recurrent language model."""
    cell, xs = CELLS[config.kind], [0.0, 140.0, 280.0]
    symbol = "x" if ends.token == "token" else "p"
    shapes, points = inputs(xs, [Formula(f"{symbol}_{n}") for n in (1, 2, 3)], translated(ends.embedding))
    left = -118.0
    shapes += beside(
        left,
        points[0].y + 14,
        [
            translated(ends.embedding) if ends.embedding != "embedding" else say("embedding E"),
            of(config.embedding_width, "number"),
        ],
    )
    rows = one_way(xs, points, cell, config.depth, before=state_words(cell, "0"))
    shapes += rows.shapes
    y = points[0].y - 28
    for layer in layer_numbers(config.depth):
        if layer is not None:
            shapes += beside(
                left,
                y - 14,
                [say("layer {n}", n=layer) if config.depth > 1 else say("hidden layer"), _cell_words(cell, config.width)],
            )
        y = y - 34 + 4.0 - 28 if layer is not None else y - 48
    shapes += _readout(rows.ends, ends, 360) if ends.readout else _outputs(xs, rows.ends, config, left, ends)
    words = say("{cell} language model, unrolled over time: {layers}, width {n}", cell=title_of(cell),
                layers=of(config.depth, "layer"), n=number(config.width))  # fmt: skip
    return headed(shapes, title, [words])


def _cell_words(cell: type[Cell], width: int) -> str:
    return say("{cell}, width {n}", cell=title_of(cell), n=number(width))


def _outputs(xs: Sequence[float], points: Sequence[Point], config: RecurrentConfig, left: float, ends: Ends) -> list[Shapes]:
    shapes: list[Shapes] = []
    for n, (x, start) in enumerate(zip(xs, points, strict=True)):
        one = box(x, start.y - 30, [say("output")], "pink", 90)
        predicted = Formula(rf"p(x_{n + 2} | x_{{\leq {n + 1}}})") if ends.token == "token" else Formula(rf"\hat y_{n + 1}")
        shapes += [
            arrow(start, one.below()),
            one,
            arrow(one.above(), Point(x, one.top - 20)),
            note(x, one.top - 32, predicted, size=13),
        ]
    narrow = config.tied and config.embedding_width != config.width
    tied: list[Words] = (
        [say("linear {n} → {m}, then Eᵀ (tied)", n=number(config.width), m=number(config.embedding_width))]
        if narrow
        else [say("softmax of Eᵀ h (tied)") if config.tied else say("softmax of W h + b")]
    )
    words = beside(left, points[0].y - 46, [say("output layer"), *(tied if ends.token == "token" else [say("linear")])])
    return shapes + words


def _readout(points: Sequence[Point], ends: Ends, width: float) -> list[Shapes]:
    """What a task makes of the vectors of all tokens."""
    x = points[len(points) // 2].x
    readout = box(x, points[0].y - 30, [say("readout"), say("of {task}", task=translated(ends.readout))], "pink", width)
    arrows = [arrow(end, Point(end.x, readout.bottom)) for end in points]
    return [
        *arrows,
        readout,
        arrow(readout.above(), Point(x, readout.top - 20)),
        note(x, readout.top - 32, say("prediction"), size=13),
    ]


def encoder_drawing(config: RecurrentEncoderConfig, title: str, ends: Ends) -> Sheet:
    """A recurrent encoder with the readout of its task."""
    cell, xs = CELLS[config.kind], [0.0, 160.0, 320.0]
    shapes, points = inputs(xs, [Formula(f"x_{n}") for n in (1, 2, 3)], say("embedding"))
    run = both_ways if config.bidirectional else one_way
    rows = run(xs, points, cell, config.depth)
    shapes += rows.shapes
    shapes += _readout(rows.ends, ends, 400)
    told = {"cell": title_of(cell), "layers": of(config.depth, "layer"), "n": number(config.width)}
    lines: list[Words] = [
        say("bidirectional {cell}: {layers}, width {n} in each direction", **told)
        if config.bidirectional
        else say("{cell}: {layers}, width {n}", **told)
    ]
    wide, spelled = number(config.embedding_width), config.spelling.width
    lines.append(
        say("embeddings of {n} numbers, and of {m} for the word's spelling", n=wide, m=number(spelled))
        if spelled
        else say("embeddings of {n} numbers", n=wide)
    )
    return headed(shapes, title, lines)


def average_drawing(config: AverageConfig, title: str, ends: Ends) -> Sheet:
    """The mean of word vectors."""
    xs = [0.0, 120.0, 240.0]
    shapes, points = inputs(xs, [Formula(f"x_{n}") for n in (1, 2, 3)], say("vector"))
    mean = box(120, points[0].y - 36, [say("mean of the word vectors"), of(config.width, "number")], "blue", 300)
    shapes += [arrow(point, Point(point.x, mean.bottom)) for point in points]
    shapes += [mean, *_readout([mean.above()], ends, 300)]
    return headed(shapes, title, [say("word vectors of {n} numbers, in any order", n=number(config.width))])
