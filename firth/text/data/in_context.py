"""Prompts that define a task by examples alone, a new task in each, for learning in context.

Training prompts never end: each batch is drawn from (seed, its number). Validation and test prompts have their own fixed seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from firth.text.batches import Seekable
from firth.text.config import LinearConfig, SwapsConfig, TokenizerConfig
from firth.text.data_set import Part
from firth.text.datasets.in_context_tasks import LinearFunctions, PointBatch, PointPrompts, SwapBatch, SwapPrompts, Swaps, Tasks
from firth.text.fingerprint import sha256_of_arrays
from firth.text.holdout import SplitData
from firth.text.readers.pieces import Piece
from firth.text.tokenizers.tokenizer import Tokenizer

_PARTS: tuple[Part, ...] = ("train", "valid", "test")
P = TypeVar("P", bound=SwapPrompts | PointPrompts)
_HELD_OUT = 0  # the seed of the validation and test prompts


@dataclass(frozen=True, kw_only=True)
class PromptData(SplitData[P]):
    """The data of a run that learns in context: permutations of letters, or linear functions. There are as many prompts to train
    on as to test on; `sha256` is that of validation and test."""

    tasks: Tasks


SwapData = PromptData[SwapPrompts]
LinearData = PromptData[PointPrompts]


class FreshPrompts(Seekable):
    """Batches of training prompts without end: each is drawn from the seed and its number."""

    def __init__(self, tasks: Tasks, batch: int, seed: int) -> None:
        self._tasks, self._batch, self._seed = tasks, batch, seed

    def next(self) -> SwapBatch | PointBatch:
        random = np.random.default_rng((self._seed, self.position))
        self.position += 1
        return self._tasks.draw("train", self._batch, random).batch()


def prepare_swaps(data: SwapsConfig, tokenizer: TokenizerConfig | Tokenizer) -> SwapData:
    tasks = Swaps(data.letters, data.word_length, data.examples)
    train, valid, test = (tasks.draw(part, data.count // 10, _random(part)) for part in _PARTS)
    return PromptData(_vocabulary(tasks, tokenizer), train, valid, test, _sha256(valid, test), tasks=tasks)


def prepare_linear(data: LinearConfig, tokenizer: TokenizerConfig | Tokenizer) -> LinearData:
    tasks = LinearFunctions(data.dimensions, data.noise, data.examples)
    train, valid, test = (tasks.draw(part, data.count // 10, _random(part)) for part in _PARTS)
    return PromptData(_vocabulary(tasks, tokenizer), train, valid, test, _sha256(valid, test), tasks=tasks)


def prompt_tokens(data: SwapsConfig | LinearConfig) -> int:
    """Input tokens of one prompt."""
    if isinstance(data, SwapsConfig):
        return Swaps(data.letters, data.word_length, data.examples).tokens
    return LinearFunctions(data.dimensions, data.noise, data.examples).tokens


def _random(part: Part) -> np.random.Generator:
    """Seeded by three numbers, while training batches are seeded by two, so no prompt is shared with training."""
    return np.random.default_rng((_HELD_OUT, _PARTS.index(part), 1))


def _vocabulary(tasks: Tasks, tokenizer: TokenizerConfig | Tokenizer) -> Tokenizer:
    """The tokenizer of a run, or one with a token for each character of a prompt."""
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    return Tokenizer.train(TokenizerConfig(), [Piece(tasks.alphabet, True)], documents=1)


def _sha256(*parts: SwapPrompts | PointPrompts) -> str:
    return sha256_of_arrays(array for prompts in parts for array in vars(prompts).values())
