"""A drawing with its title and the words above and below it, arranged on a page or on a slide."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from firth.figures.diagram import Label, Rect, Words, extent
from firth.figures.diagram.shapes import SMALL, Box, Shapes, text_width

_TITLE, _SUBTITLE = 15.0, 12.0
_RATIO = 16 / 9
# of a slide, in units of its height: the edge, sizes of letters, leading, and the share of its width beside the drawing
_EDGE, _HEADING, _TEXT, _LEADING, _BESIDE = 0.045, 0.05, 0.03, 1.45, 0.31
_LEAST = 300.0  # height of a slide: letters of a small drawing are not magnified without limit
# a Chinese letter with the punctuation that may not begin a line, or a word
_PIECES = re.compile(r"[\u2e80-\u9fff][\u3001-\u3003\uff00-\uff5e]*|[^\s\u2e80-\u9fff]+|\s+")


@dataclass(frozen=True)
class Sheet:
    shapes: Sequence[Shapes]
    title: str
    lines: Sequence[Words] = ()  # under the title
    below: Sequence[Words] = ()  # under the drawing

    def page(self) -> list[Shapes]:
        """The title and the lines above the drawing."""
        around = extent(self.shapes)
        wide = max(
            [text_width(self.title, _TITLE) * 1.08, *(text_width(words, _SUBTITLE) for words in (*self.lines, *self.below))]
        )
        left = min(around.left, around.x - wide / 2)
        top = around.top - 24 - 20 * len(self.lines)
        heading: list[Shapes] = [Label(left, top, self.title, _TITLE, "start", bold=True)]
        heading += [Label(left, top + 22 + 19 * n, words, _SUBTITLE, "start", muted=True) for n, words in enumerate(self.lines)]
        feet = [Label(left, around.bottom + 26 + 22 * n, words, 12.5, "start") for n, words in enumerate(self.below)]
        return [*heading, *self.shapes, *feet]

    def slide(self) -> tuple[list[Shapes], Rect]:
        """The shapes, and the slide that they stand on. Words stand above and below the drawing, or beside it, wherever the
        letters of the drawing become larger: the slide is as small as the drawing allows."""
        above, beside = self._above(), self._beside()
        if beside is not None and beside.slide.height < 0.95 * above.slide.height:
            return beside.shapes, beside.slide
        return above.shapes, above.slide

    def words(self) -> list[str]:
        """What the drawing says, from its title downwards and from left to right."""
        texts = [(shape.rect, str(shape.words)) for shape in self.shapes if isinstance(shape, Label)]
        texts += [(one.rect, ", ".join(map(str, one.lines))) for one in self.shapes if isinstance(one, Box) and one.lines]
        in_order = sorted(texts, key=lambda one: (round(one[0].y / 12), one[0].left))
        return [self.title, *map(str, self.lines), *(text for _, text in in_order), *map(str, self.below)]

    def _above(self) -> _Slide:
        around = extent(self.shapes)
        wide = _RATIO - 2 * _EDGE
        head = _column([self.title], _HEADING, wide) + _column(self.lines, _TEXT, wide)
        feet = _in_two(self.below, wide)
        low = max(map(_height, feet))
        high = 1 - _height(head) - low - (3.5 if low else 3) * _EDGE
        height = max(_LEAST, around.height / max(high, 0.05), around.width / wide)
        top, bottom = height * (_EDGE + _height(head)), height * (1 - _EDGE - low)
        shapes = _written(head, height, _EDGE, _EDGE) + _moved(self.shapes, _RATIO * height / 2, (top + bottom) / 2)
        for n, lines in enumerate(feet):
            shapes += _written(lines, height, bottom / height, _EDGE + n * wide / 2)
        return _Slide(shapes, Rect(0, 0, _RATIO * height, height))

    def _beside(self) -> _Slide | None:
        around = extent(self.shapes)
        column = _BESIDE * _RATIO - 1.5 * _EDGE
        head = _column([self.title], _HEADING, column) + _column(self.lines, _TEXT, column)
        feet = _column(self.below, _TEXT, column)
        if _height(head) + _height(feet) + 3 * _EDGE > 1:
            return None
        right = (1 - _BESIDE) * _RATIO - _EDGE
        height = max(_LEAST, around.height / (1 - 2 * _EDGE), around.width / right)
        x = height * (_BESIDE * _RATIO + right / 2)
        shapes = _written(head, height, _EDGE, _EDGE) + _moved(self.shapes, x, height / 2)
        return _Slide(shapes + _written(feet, height, 1 - _EDGE - _height(feet), _EDGE), Rect(0, 0, _RATIO * height, height))


class _Slide(NamedTuple):
    shapes: list[Shapes]
    slide: Rect


class _Line(NamedTuple):
    """A line on a slide, with the size of its letters in units of the slide's height."""

    words: Words
    size: float
    bold: bool


def _column(texts: Sequence[Words], size: float, wide: float) -> list[_Line]:
    """Texts that are broken to this width. A formula is never broken, but set smaller."""
    bold = size == _HEADING
    found = []
    for text in texts:
        for words in wrapped(text, 1000 * wide / (1.08 if bold else 1.0), 1000 * size) if isinstance(text, str) else [text]:
            own = text_width(words, 1000.0) / 1000 * (1.08 if bold else 1.0)
            found.append(_Line(words, min(size, wide / own) if own else size, bold))
    return found


def _in_two(texts: Sequence[Words], wide: float) -> list[list[_Line]]:
    """One column, or two where there are many lines and all of them are short."""
    if len(texts) >= 4 and all(_TEXT * text_width(text, 1.0) < wide / 2 - _EDGE for text in texts):
        half = (len(texts) + 1) // 2
        return [_column(texts[:half], _TEXT, wide / 2), _column(texts[half:], _TEXT, wide / 2)]
    return [_column(texts, _TEXT, wide)]


def _height(lines: Sequence[_Line]) -> float:
    return sum(_LEADING * line.size for line in lines)


def _written(lines: Sequence[_Line], height: float, top: float, left: float) -> list[Shapes]:
    shapes: list[Shapes] = []
    for words, size, bold in lines:
        y = (top + _LEADING * size / 2) * height
        shapes.append(Label(left * height, y, words, size * height, "start", muted=not bold, bold=bold))
        top += _LEADING * size
    return shapes


def _moved(shapes: Sequence[Shapes], x: float, y: float) -> list[Shapes]:
    around = extent(shapes)
    return [shape.moved(x - around.x, y - around.y) for shape in shapes]


def wrapped(text: str, most: float, size: float = SMALL) -> list[str]:
    """Lines of at most this width. Chinese may be broken between any two letters."""
    lines = [""]
    for piece in _PIECES.findall(text):
        if lines[-1].strip() and text_width(lines[-1] + piece, size) > most and not piece.isspace():
            lines.append("")
        if lines[-1] or not piece.isspace():
            lines[-1] += piece
    return [line.rstrip() for line in lines]
