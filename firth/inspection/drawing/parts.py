"""What the drawings share: columns that grow upwards, rows of boxes, and the words for the settings of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from firth.figures.diagram import Arrow, Box, Label, Point, Tone, Words, box_height, box_width, extent
from firth.figures.diagram.shapes import Shapes, text_width

GAP = 22.0  # between boxes above each other
PLUS = 22.0  # diameter of a circle
_TITLE, _SUBTITLE = 15.0, 12.0


@dataclass(frozen=True)
class Ends:
    """What a model reads and predicts, in the words of its task."""

    token: str = "token"
    embedding: str = "embedding"
    predicts: str = "next token"
    readout: str = ""  # what reads the vectors of all tokens; if empty, an output layer predicts tokens


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


def headed(shapes: Sequence[Shapes], title: str, lines: Sequence[Words] = (), below: Sequence[Words] = ()) -> list[Shapes]:
    """Shapes under a title with further lines, and above others."""
    around = extent(shapes)
    wide = max([text_width(title, _TITLE) * 1.08, *(text_width(words, _SUBTITLE) for words in (*lines, *below))])
    left = min(around.left, around.x - wide / 2)
    top = around.top - 24 - 20 * len(lines)
    heading: list[Shapes] = [Label(left, top, title, _TITLE, "start", bold=True)]
    heading += [Label(left, top + 22 + 19 * n, words, _SUBTITLE, "start", muted=True) for n, words in enumerate(lines)]
    feet = [Label(left, around.bottom + 26 + 22 * n, words, 12.5, "start") for n, words in enumerate(below)]
    return [*heading, *shapes, *feet]


def number(value: int) -> str:
    return f"{value:,}"


def of(count: int, thing: str, things: str = "") -> str:
    """1 layer, 2 layers."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def listed(numbers: Sequence[int]) -> str:
    """The numbers of layers from 1, or how many there are."""
    return (
        f"layer{'s' * (len(numbers) > 1)} {', '.join(str(n + 1) for n in numbers)}"
        if len(numbers) < 5
        else of(len(numbers), "layer")
    )
