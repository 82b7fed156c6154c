"""Tasks to be learned in context, a new one in every prompt (Garg et al. 2022): permutations of letters, and linear functions.

    swaps     "abca>cbac;dacb>dcab;…"    the task is a permutation π of the letters:  y_j = π(x_j)
    linear    x_1, y_1, x_2, y_2, …      the task is w:  y_k = w·x_k + σ ε_k,  w, x_k and ε_k normal     (Garg et al. 2022, §2)

A prompt has `examples` examples and then the query. Every answer may attend to everything before it, so one prompt asks with
0, 1, … and all examples. The examples reveal π for the letters that occur in them: the more examples, the more is known.

Of the permutations, a tenth is used for validation, another tenth for test, and the others for training, so a tested task never
occurs in training; for w, which is drawn from a continuum, this holds anyway.
Letters: B prompts, E = examples + 1, L letters of a word, A letters of the alphabet, P permutations, D dimensions, T tokens.
"""

from __future__ import annotations

import itertools
import string
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from firth.text.batches.padding import PADDING
from firth.text.batches.permutation import keys, permuted
from firth.text.data_set import Part

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]

END, ARROW = ";", ">"  # ends an example; stands between a word and its answer
_NUMBER: dict[str, int] = {END: 0, ARROW: 1}  # in code point order, like the ids of a character tokenizer
_FIRST_LETTER = len(_NUMBER)
_SPLIT = 0  # the purpose of the key
_SEED = 0  # of the split into training, validation and test permutations


@dataclass(frozen=True, slots=True)
class SwapBatch:
    token_BT: Ints
    target_BT: Ints  # the next token if it belongs to an answer, otherwise −1
    fresh: bool = True

    @property
    def tokens(self) -> int:
        """Input tokens."""
        return self.token_BT.size


@dataclass(frozen=True, slots=True)
class PointBatch:
    x_BED: Floats
    y_BE: Floats
    fresh: bool = True

    @property
    def tokens(self) -> int:
        """Input tokens: each x, and each y but the last."""
        return 2 * self.y_BE.size - len(self.y_BE)


@dataclass(frozen=True)
class SwapPrompts:
    """Words of the letters 0, 1, …, and the image of each letter."""

    word_BEL: Ints
    becomes_BA: Ints  # π

    def __len__(self) -> int:
        return len(self.word_BEL)

    @property
    def answer_BEL(self) -> Ints:
        """y_j = π(x_j)."""
        return np.take_along_axis(self.becomes_BA[:, None], self.word_BEL, axis=2)

    def batch(self, first: int = 0, last: int | None = None) -> SwapBatch:
        """Prompts `first` to `last` − 1 as model input."""
        word_BEL, answer_BEL = self.word_BEL[first:last], self.answer_BEL[first:last]
        sign_BE1 = np.zeros((*word_BEL.shape[:2], 1), np.int64)
        written = (word_BEL + _FIRST_LETTER, sign_BE1 + _NUMBER[ARROW], answer_BEL + _FIRST_LETTER, sign_BE1 + _NUMBER[END])
        token_BT = np.concatenate(written, axis=2).reshape(len(word_BEL), -1)
        target_BT = np.where(self._answers(), token_BT, PADDING)
        return SwapBatch(token_BT[:, :-1].copy(), target_BT[:, 1:].copy())

    def _answers(self) -> NDArray[np.bool_]:
        """True for the tokens of a prompt that belong to an answer."""
        _, examples, length = self.word_BEL.shape
        token = np.arange(2 * length + 2)
        return np.tile((length < token) & (token <= 2 * length), examples)

    def text(self, row: int) -> str:
        """A prompt in readable form."""
        letters = np.array(list(string.ascii_lowercase))
        pairs = zip(letters[self.word_BEL[row]], letters[self.answer_BEL[row]], strict=True)
        return "".join(f"{''.join(word)}{ARROW}{''.join(answer)}{END}" for word, answer in pairs)


@dataclass(frozen=True)
class PointPrompts:
    x_BED: Floats
    y_BE: Floats

    def __len__(self) -> int:
        return len(self.y_BE)

    def batch(self, first: int = 0, last: int | None = None) -> PointBatch:
        return PointBatch(self.x_BED[first:last], self.y_BE[first:last])


@dataclass(frozen=True)
class Swaps:
    """Prompts whose task is a permutation of letters."""

    letters: int
    word_length: int
    examples: int

    @property
    def tokens(self) -> int:
        """Input tokens of a prompt: the last character predicts nothing and is left out."""
        return (self.examples + 1) * (2 * self.word_length + 2) - 1

    @property
    def alphabet(self) -> str:
        return END + ARROW + string.ascii_lowercase[: self.letters]

    def draw(self, part: Part, count: int, random: np.random.Generator) -> SwapPrompts:
        tasks_PA = tasks_of(self.letters, part)
        word_BEL = random.integers(self.letters, size=(count, self.examples + 1, self.word_length))
        return SwapPrompts(word_BEL, tasks_PA[random.integers(len(tasks_PA), size=count)])


@dataclass(frozen=True)
class LinearFunctions:
    """Prompts whose task is a linear function: y = w·x + σ ε."""

    dimensions: int
    noise: float  # σ
    examples: int
    alphabet = "xy"  # the two kinds of input, which are numbers; every run folder has a vocabulary

    @property
    def tokens(self) -> int:
        return 2 * self.examples + 1

    def draw(self, part: Part, count: int, random: np.random.Generator) -> PointPrompts:
        w_BD = random.standard_normal((count, self.dimensions), dtype=np.float32)
        x_BED = random.standard_normal((count, self.examples + 1, self.dimensions), dtype=np.float32)
        y_BE = np.einsum("bed,bd->be", x_BED, w_BD)
        if self.noise:
            y_BE += np.float32(self.noise) * random.standard_normal(y_BE.shape, dtype=np.float32)
        return PointPrompts(x_BED, y_BE)


Tasks = Swaps | LinearFunctions


@lru_cache(maxsize=3)
def tasks_of(letters: int, part: Part) -> Ints:
    """The permutations of the letters that belong to one part, a row each."""
    every_PA = np.array(list(itertools.permutations(range(letters))), np.int64)
    count = len(every_PA)
    tenth = max(1, count // 10)
    order_P = permuted(np.arange(count, dtype=np.uint64), count, keys(_SEED, np.array([letters], np.uint64), _SPLIT))
    ends = {"test": (0, tenth), "valid": (tenth, 2 * tenth), "train": (2 * tenth, count)}[part]
    return every_PA[order_P[slice(*ends)].astype(np.int64)]
