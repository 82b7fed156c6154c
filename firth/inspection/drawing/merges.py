"""Byte-pair encoding of words as trees: bytes at the bottom, tokens at the top, and at each pair the rank of its merge."""

from __future__ import annotations

from collections.abc import Sequence

from firth.errors import DataError
from firth.figures.diagram import Box, Point, Words, extent
from firth.figures.diagram.shapes import SIZE, Label, Shapes, text_width
from firth.inspection.drawing.parts import headed, in_rows, line, note, room
from firth.inspection.drawing.sheet import Sheet
from firth.inspection.drawing.wording import number, of, say
from firth.text.tokenizers.merges import MergedWord, MergeNode

_LETTER, _HIGH, _RISE = 30.0, 28.0, 52.0  # width and height of a box, and from one level to the next
_MOST = 12  # words on a page


def merges_drawing(words: Sequence[MergedWord], title: str) -> Sheet:
    panels = [_word(word) for word in words]
    widest = max(extent(panel).width for panel in panels)
    if len(words) > _MOST or widest > room():
        raise DataError(
            f"the text has {len(words):,} words, or one that is too long for a page. Draw the merges of a few short words."
        )
    merged = sum(_count(token) for word in words for token in word.tokens)
    lines: list[Words] = [say("{merges}, numbered in the order in which they were learned", merges=of(merged, "merge"))]
    return headed(in_rows(panels), title, lines)


def _count(node: MergeNode) -> int:
    """The merges that made it."""
    return (node.rank is not None) + sum(map(_count, node.parts))


def _word(word: MergedWord) -> list[Shapes]:
    shapes: list[Shapes] = []
    x = 0.0
    for token in word.tokens:
        _, _, x = _node(shapes, token, x, top=True)
        x += 14
    around = extent(shapes)
    told = f"{_shown(word.text)}: {of(len(word.tokens), 'token')}"
    return [*shapes, Label(around.left, around.bottom + 22, told, 12.5, "start", bold=True)]


def _node(shapes: list[Shapes], node: MergeNode, left: float, top: bool) -> tuple[Box, int, float]:
    """Draw a node above its parts, which begin at `left`; its box, its level, and where the next one begins."""
    wide = max(_LETTER, text_width(_shown(node.text), SIZE) + 12)
    if not node.parts:
        own = Box(left, -_HIGH, wide, _HIGH, (_shown(node.text),), "pink" if top else "plain")
        shapes.append(own)
        return own, 0, own.right + 6
    first, level, right = _node(shapes, node.parts[0], left, top=False)
    second, other, right = _node(shapes, node.parts[1], right, top=False)
    level = max(level, other) + 1
    x, bottom = (first.x + second.x) / 2, -_RISE * level
    own = Box(x - wide / 2, bottom - _HIGH, wide, _HIGH, (_shown(node.text),), "pink" if top else "sky")
    joint = bottom + 12
    for part in (first, second):
        shapes.append(line(part.above(), Point(part.x, joint), Point(x, joint)))
    shapes += [line(Point(x, joint), own.below()), own]
    assert node.rank is not None
    shapes.append(note(own.right + 4, own.y, number(node.rank), "start", 10.5))
    return own, level, max(right, own.right + text_width(number(node.rank), 10.5) + 12)


def _shown(text: str) -> str:
    """With marks for spaces and breaks of lines."""
    return text.replace(" ", "␣").replace("\u2581", "␣").replace("\n", "⏎").replace("\t", "⇥")
