"""The drawing of lesson 1: three words as one-hot vectors, and as rows of the counts of its six sentences."""

from __future__ import annotations

from collections.abc import Sequence

import firth
from firth.figures.diagram import Box, Diagram, Label, Tone

SENTENCES = (
    "the hotel has a cheap room", "the motel has a cheap room", "we slept in a motel", "we slept in a hotel",
    "she ate a ripe apricot", "a sweet ripe apricot",
)  # fmt: skip
WORDS = ("hotel", "motel", "apricot")
CONTEXTS = ("a", "has", "in", "the", "ripe", "sweet")
_SIDE, _LEFT, _GAP = 44.0, 76.0, 60.0


def drawings() -> dict[str, Diagram]:
    counted = firth.vectors.cooccur(list(SENTENCES), window=2, weight="raw", progress=False)
    count = {word: [int(counted[word][counted.index[context]]) for context in CONTEXTS] for word in WORDS}
    one_hot = {word: [int(word == other) for other in WORDS] for word in WORDS}
    second = _LEFT + len(WORDS) * _SIDE + _GAP + _LEFT
    shapes = (*_table(_LEFT, "as an index", WORDS, one_hot), *_table(second, "as the words beside it", CONTEXTS, count))
    about = "; ".join(f"{word}: {', '.join(map(str, row))}" for word, row in count.items())
    described = f"One-hot vectors of {', '.join(WORDS)}. Counts of the words {', '.join(CONTEXTS)} beside them: {about}."
    return {"one-hot-and-counts": Diagram("One-hot vectors and counts of contexts", described, shapes)}


def _table(left: float, title: str, columns: Sequence[str], rows: dict[str, list[int]]) -> list[Box | Label]:
    shapes: list[Box | Label] = [Label(left + len(columns) * _SIDE / 2, -_SIDE * 0.95, title, bold=True)]
    shapes += [Label(left + (n + 0.5) * _SIDE, -_SIDE * 0.3, column, size=11.5, muted=True) for n, column in enumerate(columns)]
    for down, (word, values) in enumerate(rows.items()):
        shapes.append(Label(left - 10, (down + 0.5) * _SIDE, word, anchor="end"))
        for across, value in enumerate(values):
            tone: Tone = "plain" if value == 0 else "blue"
            shapes.append(Box(left + across * _SIDE, down * _SIDE, _SIDE, _SIDE, (str(value),), tone))
    return shapes
