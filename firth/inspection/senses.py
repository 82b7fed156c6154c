"""One word in several sentences: how alike its contextual vectors are, beside the one vector that its embedding has.

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
from firth.figures.figure import Figure, Table
from firth.figures.senses import senses_map, senses_text
from firth.text.tokenizers.offsets import Span

Array = npt.NDArray[np.float64]
_CHOSEN = re.compile(r"(?P<word>.+)#(?P<number>[0-9]+)", re.DOTALL)


@dataclass(frozen=True, eq=False)
class Senses:
    """cos(x_m, x_n) of the word's vectors in sentences m and n. In layer 0, the embedding, a word has one vector wherever it
    stands: there, all of the same form are 1."""

    word: str
    sentences: tuple[str, ...]
    layer: int  # the one to look at
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
        """Every layer, every two sentences."""
        return self._figure.table

    def text(self, width: int = 80) -> str:
        last = len(self.layers) - 1
        return senses_text(self.sentences, self.similarity.tolist(), self.static.tolist(), self.layer, last, width)


def senses(word: str, sentences: Sequence[str], vectors: Sequence[npt.ArrayLike], layer: int) -> Senses:
    """From x_Nd of every layer, the embedding first."""
    unit = [units(x_Nd) for x_Nd in vectors]
    # Of equal vectors it is 1, not 1 but for the last bit.
    return Senses(word, tuple(sentences), layer, tuple((u_Nd @ u_Nd.T).round(12) for u_Nd in unit))


def occurrence(sentence: str, word: str) -> Span:
    """Where the word stands, whatever its case; the first time, or with "word#2" the second. What is written on in letters or
    digits is another word."""
    chosen = _CHOSEN.fullmatch(word)
    form, number = (chosen["word"], int(chosen["number"])) if chosen else (word, 1)
    if not form.strip() or number < 1:
        raise ConfigError(
            f'the word is "{word}"; expected a word, or as in "{form.strip() or "word"}#2" the second time it stands there'
        )
    found = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(form.strip())}(?!\w)", sentence, re.IGNORECASE)]
    if len(found) < number:
        times = {0: "not", 1: "once"}.get(len(found), f"{len(found)} times")
        asked = f"; {number} times are asked for" if number > 1 else ""
        raise DataError(
            f'the word "{form.strip()}" stands {times} in the sentence "{sentence}"{asked}; give sentences that have it'
        )
    return found[number - 1]
