"""Compare a word's contextual vectors across sentences, next to its static embedding.

Letters: N sentences, d width.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from firth.errors import ConfigError, DataError
from firth.evaluation.wic import units
from firth.figures.figure import Drawn, Figure, Table
from firth.figures.senses import senses_map, senses_text
from firth.text.tokenizers.offsets import Span

Array = npt.NDArray[np.float64]
_CHOSEN = re.compile(r"(?P<word>.+)#(?P<number>[0-9]+)", re.DOTALL)


@dataclass(frozen=True, eq=False, repr=False)
class Senses(Drawn):
    """cos(x_m, x_n) of the word's vectors in sentences m and n. Layer 0 is the embedding, where a word has the same vector in
    every sentence: all cosines of the same form are 1."""

    word: str
    sentences: tuple[str, ...]
    layer: int  # the selected layer
    layers: tuple[Array, ...]  # N × N of every layer, the embedding first

    @property
    def similarity(self) -> Array:
        return self.layers[self.layer]

    @property
    def static(self) -> Array:
        return self.layers[0]

    @cached_property
    def _figure(self) -> Figure:
        return senses_map(self.word, self.sentences, [matrix.tolist() for matrix in self.layers], self.layer)

    def figure(self) -> Figure:
        return self._figure

    @property
    def table(self) -> Table:
        """The cosine for every layer and every pair of sentences."""
        return self._figure.table

    def text(self, width: int = 80) -> str:
        last = len(self.layers) - 1
        return senses_text(self.sentences, self.similarity.tolist(), self.static.tolist(), self.layer, last, width)


def senses(word: str, sentences: Sequence[str], vectors: Sequence[npt.ArrayLike], layer: int) -> Senses:
    """From x_Nd of every layer, the embedding first."""
    unit = [units(x_Nd) for x_Nd in vectors]
    # Rounded so that the cosine of equal vectors is exactly 1.
    return Senses(word, tuple(sentences), layer, tuple((u_Nd @ u_Nd.T).round(12) for u_Nd in unit))


def occurrence(sentence: str, word: str) -> Span:
    """The first occurrence of the word in the sentence, ignoring case; "word#2" is the second. Only whole words match."""
    chosen = _CHOSEN.fullmatch(word)
    form, number = (chosen["word"], int(chosen["number"])) if chosen else (word, 1)
    if not form.strip() or number < 1:
        raise ConfigError(f'the word is "{word}"; expected a word, or "{form.strip() or "word"}#2" for its second occurrence')
    spans = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(form.strip())}(?!\w)", sentence, re.IGNORECASE)]
    if len(spans) < number:
        times = "does not occur" if not spans else "occurs once" if len(spans) == 1 else f"occurs {len(spans)} times"
        needed = f", not {number} times" if number > 1 else ""
        raise DataError(f'"{form.strip()}" {times} in the sentence "{sentence}"{needed}. Use sentences that contain it')
    return spans[number - 1]
