"""The drawing of lesson 2: a window around a word, whose pairs are observed, and words drawn at random."""

from __future__ import annotations

from firth.figures.diagram import Arrow, Box, Diagram, Formula, Label, Point, Tone

SENTENCE = ("Marco", "saw", "a", "furry", "little", "wampimuk", "hiding", "in", "the", "tree")
CENTRE, WINDOW = 5, 2
DRAWN = ("of", "Monday", "cheese")  # at random
_HEIGHT, _GAP = 34.0, 10.0


def drawings() -> dict[str, Diagram]:
    boxes = _row(SENTENCE, 0.0, 0.0)
    centre = boxes[CENTRE]
    near = [box for n, box in enumerate(boxes) if 0 < abs(n - CENTRE) <= WINDOW]
    width = sum(box.width + _GAP for box in _row(DRAWN, 0.0, 0.0)) - _GAP
    drawn = _row(DRAWN, centre.x - width / 2, 110.0)
    above = -56.0
    heights = (above - 9.0, above, above, above - 9.0)  # those of the outer arrows are higher
    arrows = [_bent(centre, box, height) for box, height in zip(near, heights, strict=True)]
    random = [Arrow((centre.below(), box.above()), dashed=True) for box in drawn]
    observed = Formula(r"\sigma(u_c \cdot v_w) \to 1")
    labels = (
        Label(centre.x, -92.0, observed),
        Label(drawn[0].left - 14, drawn[0].y, "drawn at random", anchor="end", muted=True),
        Label(drawn[-1].right + 14, drawn[-1].y, Formula(r"\sigma(u_n \cdot v_w) \to 0"), anchor="start"),
    )
    described = (
        f"The sentence {' '.join(SENTENCE)}. Arrows lead from {SENTENCE[CENTRE]} to the words at most {WINDOW} places away: "
        f"their score should be near 1. Dashed arrows lead to {', '.join(DRAWN)}, drawn at random: near 0."
    )
    return {"skip-gram": Diagram("A window and negative samples", described, (*boxes, *drawn, *arrows, *random, *labels))}


def _row(words: tuple[str, ...], left: float, top: float) -> list[Box]:
    boxes: list[Box] = []
    for n, word in enumerate(words):
        start = boxes[-1].right + _GAP if boxes else left
        tone = _tone(abs(n - CENTRE)) if words == SENTENCE else "orange"
        boxes.append(Box(start, top, 9.0 * len(word) + 18.0, _HEIGHT, (word,), tone))
    return boxes


def _tone(distance: int) -> Tone:
    if distance == 0:
        return "solid"
    return "blue" if distance <= WINDOW else "plain"


def _bent(start: Box, end: Box, height: float) -> Arrow:
    """From the top of a box up, across and down to another. The starts stand side by side."""
    x = start.x + (end.x - start.x) / 8
    return Arrow((start.above(x), Point(x, height), Point(end.x, height), end.above()))
