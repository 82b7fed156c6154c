"""Prompts that tell a task by examples alone, a new task in each (S30): letters that change roles, and linear functions.

    swaps     "abca>cbac;dacb>dcab;…"    the task is a permutation π of the letters:  y_j = π(x_j)
    linear    x_1, y_1, x_2, y_2, …      the task is w:  y_k = w·x_k + σ ε_k,  w, x_k and ε_k normal     (Garg et al. 2022, §2)

A prompt has `examples` examples and then the query. As every answer may look at what stands before it, one prompt asks with
0, 1, … and all examples. What the examples say of π are the letters that they have; the more there are, the more is known.

There is no end of prompts to train on: each batch is drawn from (seed, its number), and a run that is resumed draws on. Those to
validate and to test are drawn from their own seeds, whatever the run's is. Of the permutations a tenth is asked in validation and
another in the test, and the others in training: a task that is tested was never seen, which for w goes without saying.
Letters: B prompts, E = examples + 1, L letters of a word, A letters that there are, P permutations, D dimensions, T tokens.
"""

from __future__ import annotations

import hashlib
import itertools
import string
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from firth.text.batches.permutation import keys, permuted
from firth.text.config import LinearConfig, SwapsConfig, TokenizerConfig
from firth.text.data.pairs import PADDING
from firth.text.readers.records import Piece
from firth.text.tokenizers.tokenizer import Tokenizer

Part = Literal["train", "valid", "test"]
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]

END, ARROW = ";", ">"  # of an example; between a word and its answer
_NUMBER: dict[str, int] = {END: 0, ARROW: 1}  # in the order of code points, as a tokenizer has it
_FIRST_LETTER = len(_NUMBER)
_SPLIT = 0  # what a key is for
_PARTS: tuple[Part, ...] = ("train", "valid", "test")
_HELD_OUT = 0  # the seed of what is validated and tested with


@dataclass(frozen=True, slots=True)
class SwapBatch:
    token_BT: Ints
    target_BT: Ints  # the next token where that is of an answer, otherwise −1
    fresh: bool = True

    @property
    def tokens(self) -> int:
        """Those that are read."""
        return self.token_BT.size


@dataclass(frozen=True, slots=True)
class PointBatch:
    x_BED: Floats
    y_BE: Floats
    fresh: bool = True

    @property
    def tokens(self) -> int:
        """Those that are read: each x, and each y but the last."""
        return 2 * self.y_BE.size - len(self.y_BE)


@dataclass(frozen=True)
class SwapPrompts:
    """Words of letters 0, 1, … and what each letter becomes."""

    word_BEL: Ints
    becomes_BA: Ints  # π

    def __len__(self) -> int:
        return len(self.word_BEL)

    @property
    def answer_BEL(self) -> Ints:
        """y_j = π(x_j)."""
        return np.take_along_axis(self.becomes_BA[:, None], self.word_BEL, axis=2)

    def batch(self, first: int = 0, last: int | None = None) -> SwapBatch:
        """As a model reads them, prompts `first` to `last` − 1."""
        word_BEL, answer_BEL = self.word_BEL[first:last], self.answer_BEL[first:last]
        sign_BE1 = np.zeros((*word_BEL.shape[:2], 1), np.int64)
        written = (word_BEL + _FIRST_LETTER, sign_BE1 + _NUMBER[ARROW], answer_BEL + _FIRST_LETTER, sign_BE1 + _NUMBER[END])
        token_BT = np.concatenate(written, axis=2).reshape(len(word_BEL), -1)
        target_BT = np.where(self._answers(), token_BT, PADDING)
        return SwapBatch(token_BT[:, :-1].copy(), target_BT[:, 1:].copy())

    def _answers(self) -> NDArray[np.bool_]:
        """Which tokens of a prompt are of an answer."""
        _, examples, length = self.word_BEL.shape
        token = np.arange(2 * length + 2)
        return np.tile((length < token) & (token <= 2 * length), examples)

    def text(self, row: int) -> str:
        """A prompt as people read it."""
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
    """Letters change roles."""

    letters: int
    word_length: int
    examples: int

    @property
    def tokens(self) -> int:
        """Of a prompt, the last character, which nothing is asked of, left out."""
        return (self.examples + 1) * (2 * self.word_length + 2) - 1

    @property
    def alphabet(self) -> str:
        return END + ARROW + string.ascii_lowercase[: self.letters]

    def draw(self, part: Part, count: int, random: np.random.Generator) -> SwapPrompts:
        tasks_PA = tasks_of(self.letters, part)
        word_BEL = random.integers(self.letters, size=(count, self.examples + 1, self.word_length))
        return SwapPrompts(word_BEL, tasks_PA[random.integers(len(tasks_PA), size=count)])


@dataclass(frozen=True)
class Linear:
    """y = w·x + σ ε."""

    dimensions: int
    noise: float  # σ
    examples: int
    alphabet = "xy"  # the two kinds of token, which are numbers: no text is read, and a run folder has a vocabulary all the same

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


Tasks = Swaps | Linear


@dataclass(frozen=True)
class SwapData:
    """What a recipe's [data] gives where letters change roles."""

    tokenizer: Tokenizer
    tasks: Swaps
    train: SwapPrompts  # as many as are tested, of the tasks that are trained
    valid: SwapPrompts
    test: SwapPrompts
    sha256: str  # of what is validated and tested with


@dataclass(frozen=True)
class LinearData:
    """What a recipe's [data] gives where functions are linear."""

    tokenizer: Tokenizer
    tasks: Linear
    train: PointPrompts
    valid: PointPrompts
    test: PointPrompts
    sha256: str


class FreshPrompts:
    """Prompts to train on, none of them twice: a batch is drawn from the seed and its number."""

    def __init__(self, tasks: Tasks, batch: int, seed: int) -> None:
        self.position = 0
        self._tasks, self._batch, self._seed = tasks, batch, seed

    def seek(self, position: int) -> None:
        self.position = position

    def next(self) -> SwapBatch | PointBatch:
        random = np.random.default_rng((self._seed, self.position))
        self.position += 1
        return self._tasks.draw("train", self._batch, random).batch()


def prepare_swaps(data: SwapsConfig, tokenizer: TokenizerConfig | Tokenizer) -> SwapData:
    tasks = Swaps(data.letters, data.word_length, data.examples)
    train, valid, test = (tasks.draw(part, data.count // 10, _random(part)) for part in _PARTS)
    return SwapData(_vocabulary(tasks, tokenizer), tasks, train, valid, test, _sha256(valid, test))


def prepare_linear(data: LinearConfig, tokenizer: TokenizerConfig | Tokenizer) -> LinearData:
    tasks = Linear(data.dimensions, data.noise, data.examples)
    train, valid, test = (tasks.draw(part, data.count // 10, _random(part)) for part in _PARTS)
    return LinearData(_vocabulary(tasks, tokenizer), tasks, train, valid, test, _sha256(valid, test))


def prompt_tokens(data: SwapsConfig | LinearConfig) -> int:
    """That a model reads at once."""
    if isinstance(data, SwapsConfig):
        return Swaps(data.letters, data.word_length, data.examples).tokens
    return Linear(data.dimensions, data.noise, data.examples).tokens


@lru_cache(maxsize=3)
def tasks_of(letters: int, part: Part) -> Ints:
    """The permutations of the letters, a row each, that belong to one part."""
    every_PA = np.array(list(itertools.permutations(range(letters))), np.int64)
    count = len(every_PA)
    tenth = max(1, count // 10)
    order_P = permuted(np.arange(count, dtype=np.uint64), count, keys(_HELD_OUT, np.array([letters], np.uint64), _SPLIT))
    ends = {"test": (0, tenth), "valid": (tenth, 2 * tenth), "train": (2 * tenth, count)}[part]
    return every_PA[order_P[slice(*ends)].astype(np.int64)]


def _random(part: Part) -> np.random.Generator:
    """Three numbers, so that none of these is a batch to train on, which is drawn from two."""
    return np.random.default_rng((_HELD_OUT, _PARTS.index(part), 1))


def _vocabulary(tasks: Tasks, tokenizer: TokenizerConfig | Tokenizer) -> Tokenizer:
    """That of a run, or a character each for all that a prompt is written with."""
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    return Tokenizer.train(TokenizerConfig(), [Piece(tasks.alphabet, True)], documents=1)


def _sha256(*parts: SwapPrompts | PointPrompts) -> str:
    digest = hashlib.sha256()
    for array in (array for prompts in parts for array in vars(prompts).values()):
        digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()
