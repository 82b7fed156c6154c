"""What makes a drawing hard to read: things that lie on each other, or outside the page."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from firth.figures.diagram import Arrow, Box, Diagram, Frame, Label, Rect

PAGE = 800  # pixels


class Parts(NamedTuple):
    """The shapes of a drawing by their sorts, where they stand in the file."""

    boxes: list[Box]
    labels: list[Label]
    frames: list[Frame]
    arrows: list[Arrow]


def parts(of: Diagram) -> Parts:
    placed = of.placed()
    return Parts(*([shape for shape in placed if isinstance(shape, sort)] for sort in (Box, Label, Frame, Arrow)))  # type: ignore[arg-type]


def faults(of: Diagram) -> list[str]:
    """Everything that lies on something else, is cut off, or does not fit a page."""
    width, height = of.size
    page, own = Rect(0, 0, width, height), parts(of)
    misfits = [f"outside the page: {shape}" for shape in of.placed() if not page.contains(shape.rect)]
    misfits += [f"{width} pixels wide"] if width > PAGE and of.slide is None else []
    return [*misfits, *_on_each_other(own), *_cut(own), *_crossed(own)]


def _on_each_other(own: Parts) -> Iterator[str]:
    things = [(box, box.lines) for box in own.boxes] + [(label.rect, label.words) for label in own.labels]
    for (one, first), (other, second) in itertools.combinations(things, 2):
        if one.meets(other):
            yield f"{first} lies on {second}"


def _cut(own: Parts) -> Iterator[str]:
    for box in own.boxes:
        if not box.round and any(not box.contains(label.rect) for label in box.labels()):
            yield f"the text is larger than the box: {box.lines}"
    for frame in own.frames:
        for thing in [*own.boxes, *(label.rect for label in own.labels)]:
            if frame.meets(thing) and not frame.contains(thing):
                yield f"a frame cuts {thing}"


def _crossed(own: Parts) -> Iterator[str]:
    """Lines along an axis; the few slanting ones join heads that stand above each other."""
    inner = [(box.lines, Rect(box.left + 0.5, box.top + 0.5, box.width - 1, box.height - 1)) for box in own.boxes]
    things = [*inner, *((label.words, label.rect) for label in own.labels)]
    for line in own.arrows:
        for start, end in itertools.pairwise(line.points):
            if start.x != end.x and start.y != end.y:
                continue
            along = Rect(min(start.x, end.x), min(start.y, end.y), abs(start.x - end.x), abs(start.y - end.y))
            for words, rect in things:
                if rect.meets(along):
                    yield f"a line crosses {words}"
