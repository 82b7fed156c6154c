"""What the drawings share: columns that grow upwards, rows of boxes, and the words for the settings of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from firth.figures.diagram import Arrow, Box, Label, Point, Tone, Words, box_height, box_width, extent
from firth.figures.diagram.shapes import SMALL, Shapes, text_width
from firth.inspection.drawing.sheet import Sheet
from firth.inspection.drawing.wording import of, on_slide, say

PLUS = 22.0  # diameter of a circle
_PAGE, _SLIDE = 764.0, 1100.0  # width of what fits a page without its margins, and of a row on a slide
_FOLDED = 280.0  # the longest line of a box on a slide that is made of several


@dataclass(frozen=True)
class Ends:
    """What a model reads and predicts, in the words of its task."""

    token: str = "token"
    embedding: str = "embedding"
    predicts: str = "next token"
    readout: str = ""  # what reads the vectors of all tokens; if empty, an output layer predicts tokens


def gap() -> float:
    """Between boxes above each other: a slide is not high."""
    return 11.0 if on_slide() else 22.0


def room() -> float:
    """The width that drawings may have."""
    return _SLIDE if on_slide() else _PAGE


def box(x: float, bottom: float, lines: Sequence[Words], tone: Tone = "plain", width: float = 0.0) -> Box:
    """A box with its middle at x, as wide as its lines, or wider."""
    wide, high = max(width, box_width(lines)), box_height(lines)
    return Box(x - wide / 2, bottom - high, wide, high, tuple(lines), tone)


def circle(x: float, y: float, sign: str) -> Box:
    return Box(x - PLUS / 2, y - PLUS / 2, PLUS, PLUS, (sign,), round=True)


def arrow(*points: Point, dashed: bool = False) -> Arrow:
    return Arrow(points, dashed=dashed)


def line(*points: Point, dashed: bool = False) -> Arrow:
    return Arrow(points, head=False, dashed=dashed)


def note(x: float, y: float, words: Words, anchor: str = "middle", size: float = 11.5) -> Label:
    """A small label."""
    return Label(x, y, words, size, anchor, muted=True)  # type: ignore[arg-type]


def beside(right: float, y: float, lines: Sequence[Words]) -> list[Shapes]:
    """Lines that end at `right`, for a row whose middle is y."""
    first = y - 8 * (len(lines) - 1)
    return [replace(note(right, first + 16 * n, words, "end"), muted=n > 0) for n, words in enumerate(lines)]


def headed(shapes: Sequence[Shapes], title: str, lines: Sequence[Words] = (), below: Sequence[Words] = ()) -> Sheet:
    """Shapes under a title with further lines, and above others."""
    return Sheet(tuple(shapes), title, tuple(lines), tuple(below))


def in_rows(panels: Sequence[list[Shapes]], apart: float = 44.0) -> list[Shapes]:
    """Panels beside each other, their lower edges in line; those that are too many for a page stand below."""
    shapes: list[Shapes] = []
    right = floor = 0.0
    row: list[list[Shapes]] = []
    for panel in [*panels, None]:
        wide = 0.0 if panel is None else extent(panel).width
        if panel is None or (row and right + wide > room()):
            floor += max(extent(one).height for one in row)
            left = 0.0
            for one in row:
                around = extent(one)
                shapes += [shape.moved(left - around.left, floor - around.bottom) for shape in one]
                left += around.width + apart
            floor, right, row = floor + 56, 0.0, []
        if panel is not None:
            row.append(panel)
            right += wide + apart
    return shapes


def folded(lines: list[Words]) -> list[Words]:
    """The lines of a box; on a slide, whose height is short, those after the first stand side by side where they fit."""
    if not on_slide():
        return lines
    found: list[Words] = []
    for words in lines:
        last = found[-1] if len(found) > 1 else None
        joined = f"{last}; {words}"
        if isinstance(last, str) and isinstance(words, str) and text_width(joined, SMALL) <= _FOLDED:
            found[-1] = joined
        else:
            found.append(words)
    return found


def listed(numbers: Sequence[int]) -> str:
    """The numbers of layers from 1, or how many there are."""
    if len(numbers) >= 5:
        return of(len(numbers), "layer")
    told = ", ".join(str(n + 1) for n in numbers)
    return say("layer {n}", n=told) if len(numbers) == 1 else say("layers {n}", n=told)
