"""The parts of a diagram, each with its place in pixels: boxes, frames around them, labels and arrows.

Widths of text are those of DejaVu Sans, which is wider than the other fonts that a reader may have.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple

from firth.figures.diagram.formula import Formula
from firth.figures.diagram.palette import Tone

Words = str | Formula  # what stands on one line
Anchor = Literal["start", "middle", "end"]
SIZE = 13.0  # of the first line of a box, and of labels
SMALL = 11.5  # of its other lines
SMALLER = 0.72  # size of raised and lowered letters, beside those on the line
LEADING = 1.38  # height of a line in units of its size
PADDING = 8.0  # around the lines of a box

_WIDTHS = {
    0.2: "\u2009\u202f", 0.30: "'ijlIJ′", 0.34: " ,.·/:;\\|\u00a0", 0.40: "f-()[]t!r", 0.48: "\"*_`‖", 0.57: "sz?cLFk",
    0.62: "vxyTYaoePτ", 0.65: "ESbdghnpqu$0123456789",
    0.70: "KAVBRXZC", 0.80: "UHNDGO&Qw", 0.86: "#+<=>^~×→←↑↓⊙≤≠−M⊤∑σφ", 1.0: "%mW@…",
}  # fmt: skip
_WIDTH_OF = {letter: width for width, letters in _WIDTHS.items() for letter in letters}


class Point(NamedTuple):
    x: float
    y: float


@dataclass(frozen=True)
class Rect:
    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def x(self) -> float:
        return self.left + self.width / 2

    @property
    def y(self) -> float:
        return self.top + self.height / 2

    def above(self, x: float | None = None) -> Point:
        return Point(self.x if x is None else x, self.top)

    def below(self, x: float | None = None) -> Point:
        return Point(self.x if x is None else x, self.bottom)

    def before(self, y: float | None = None) -> Point:
        return Point(self.left, self.y if y is None else y)

    def behind(self, y: float | None = None) -> Point:
        return Point(self.right, self.y if y is None else y)

    def meets(self, other: Rect, room: float = 0.0) -> bool:
        """True if the two overlap, or come closer than `room`."""
        across = self.left < other.right + room and other.left < self.right + room
        return across and self.top < other.bottom + room and other.top < self.bottom + room

    def contains(self, other: Rect) -> bool:
        across = self.left <= other.left and other.right <= self.right
        return across and self.top <= other.top and other.bottom <= self.bottom


@dataclass(frozen=True)
class Box(Rect):
    """A box with lines of text, the first of them larger. `round`: a circle or a pill."""

    lines: tuple[Words, ...] = ()
    tone: Tone = "plain"
    round: bool = False
    filled: bool = True

    @property
    def rect(self) -> Rect:
        return self

    def moved(self, dx: float, dy: float) -> Box:
        return replace(self, left=self.left + dx, top=self.top + dy)

    def labels(self) -> list[Label]:
        """Its lines, each where it stands."""
        y = self.y - sum(map(_leading, range(len(self.lines)))) / 2
        found = []
        for n, words in enumerate(self.lines):
            height = _leading(n)
            found.append(Label(self.x, y + height / 2, words, SIZE if n == 0 else SMALL, muted=n > 0))
            y += height
        return found


@dataclass(frozen=True)
class Frame(Rect):
    """A dashed line around other shapes."""

    @property
    def rect(self) -> Rect:
        return self

    def moved(self, dx: float, dy: float) -> Frame:
        return replace(self, left=self.left + dx, top=self.top + dy)


@dataclass(frozen=True)
class Label:
    """A line of text; `y` is its middle."""

    x: float
    y: float
    words: Words
    size: float = SIZE
    anchor: Anchor = "middle"
    muted: bool = False
    bold: bool = False

    @property
    def rect(self) -> Rect:
        width = text_width(self.words, self.size) * (1.08 if self.bold else 1.0)
        left = {"start": self.x, "middle": self.x - width / 2, "end": self.x - width}[self.anchor]
        return Rect(left, self.y - 0.6 * self.size, width, 1.2 * self.size)

    def moved(self, dx: float, dy: float) -> Label:
        return replace(self, x=self.x + dx, y=self.y + dy)


@dataclass(frozen=True)
class Arrow:
    """A line through points, with a head at its end unless it only joins another."""

    points: tuple[Point, ...]
    head: bool = True
    dashed: bool = False
    tone: Tone = "plain"

    @property
    def rect(self) -> Rect:
        left, top = (min(point[n] for point in self.points) for n in (0, 1))
        right, bottom = (max(point[n] for point in self.points) for n in (0, 1))
        return Rect(left, top, right - left, bottom - top)

    def moved(self, dx: float, dy: float) -> Arrow:
        return replace(self, points=tuple(Point(x + dx, y + dy) for x, y in self.points))


Shapes = Box | Frame | Label | Arrow


def arrow(*points: Point, head: bool = True, dashed: bool = False) -> Arrow:
    return Arrow(points, head, dashed)


@lru_cache(maxsize=4096)
def text_width(words: Words, size: float = SIZE) -> float:
    if isinstance(words, Formula):
        parts = [(one.text, size * (SMALLER if one.level else 1.0)) for one in words.glyphs]
    else:
        parts = [(words, size)]
    return sum(scale * sum(map(_letter_width, text)) for text, scale in parts)


def _letter_width(letter: str) -> float:
    if unicodedata.combining(letter):
        return 0.0
    plain = unicodedata.normalize("NFD", letter)[0]  # without its accent
    return _WIDTH_OF.get(plain) or (1.05 if unicodedata.east_asian_width(letter) in "WF" else 0.75)


def _leading(n: int) -> float:
    return LEADING * (SIZE if n == 0 else SMALL)


def box_width(lines: Iterable[Words]) -> float:
    """The width that a box with these lines needs."""
    return max((text_width(words, SIZE if n == 0 else SMALL) for n, words in enumerate(lines)), default=0.0) + 2 * PADDING


def box_height(lines: Sequence[Words]) -> float:
    """The height that a box with these lines needs."""
    return sum(map(_leading, range(len(lines)))) + 2 * PADDING * 0.75


def extent(shapes: Iterable[Shapes]) -> Rect:
    """The smallest rectangle around all shapes."""
    rects = [shape.rect for shape in shapes]
    left, top = min(rect.left for rect in rects), min(rect.top for rect in rects)
    return Rect(left, top, max(rect.right for rect in rects) - left, max(rect.bottom for rect in rects) - top)
