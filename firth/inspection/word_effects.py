"""The effect of each word of a text on the probability of a class: the text is classified again without the word (leave one out).

    effect_w = p(class | text) − p(class | text without w)

Letters: W words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firth.errors import DataError
from firth.figures.figure import COLOURS, Drawn, Figure
from firth.figures.ranking import ranking

Array = npt.NDArray[np.float64]
MOST_WORDS = 200  # each is one more text to classify
_DRAWN = 30  # words of a figure: those with the largest effects


@dataclass(frozen=True, eq=False, repr=False)
class WordEffects(Drawn):
    """For each word of a text, in its order: the probability of the class without the word."""

    label: str
    probability: float  # of the whole text
    words: tuple[str, ...]
    without: Array

    @property
    def effect(self) -> Array:
        """How much each word raises the probability; negative if it lowers it."""
        return self.probability - self.without

    def strongest(self) -> int | None:
        """The place of the word with the largest effect; None if there are no words."""
        return int(np.abs(self.effect).argmax()) if len(self.words) else None

    def figure(self) -> Figure:
        """A bar for each word, in the order of the text: blue to the right if the word raises the probability, orange to the left
        if it lowers it."""
        chosen = sorted(np.argsort(-np.abs(self.effect), kind="stable")[:_DRAWN].tolist())
        rows = [(self.words[n], float(self.effect[n])) for n in chosen]
        figure = ranking(rows, f"effect on the probability of {self.label}", COLOURS[0], negative=COLOURS[1])
        values = [0.0, *(value for _, value in rows)]
        room = 0.12 * (max(values) - min(values)) or 1.0  # for the numbers beside the bars
        figure.plot.update_xaxes(range=[min(values) - room, max(values) + room])
        figure.plot.update_traces(text=[f"{value:+.3f}" for _, value in rows], textposition="outside")
        return figure

    def text(self, width: int = 80) -> str:
        """One line per word."""
        lines = [f"{self.label}: {self.probability:.4f}"]
        return "\n".join(lines + [f"{effect:+8.4f}  {word}" for word, effect in zip(self.words, self.effect, strict=True)])


def word_effects(classify: Callable[[Sequence[str]], Sequence[Mapping[str, float]]], text: str, label: str) -> WordEffects:
    """`classify` returns the probabilities of texts by class. A text of one word has no effects: nothing is left without it."""
    words = text.split()
    if len(words) > MOST_WORDS:
        raise DataError(f"the text has {len(words):,} words; effects are computed for at most {MOST_WORDS}. Shorten it.")
    shorter = [" ".join(words[:n] + words[n + 1 :]) for n in range(len(words))] if len(words) > 1 else []
    whole, *others = classify([text, *shorter])
    return WordEffects(label, whole[label], tuple(words[: len(shorter)]), np.array([one[label] for one in others], np.float64))
