"""A text as a network reads it, ready to be looked at: what to run, and what the tokens are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import nn

from firth.inspection.merge_pieces import words_of

MASK = "<mask>"  # how a hidden token is written


@dataclass(frozen=True, eq=False)
class Reading:
    """`forward` is one pass as the model always runs. A decoder is first given the <eos> that ends what it writes, and then all
    that it has written, one step late."""

    network: nn.Module
    forward: Callable[[], Any]
    tokens: tuple[str, ...]  # that are read; of sentence pairs, the source
    written: tuple[str, ...] = ()  # by a decoder, <eos> last
    pieces: bool = True  # whether tokens may be pieces of words

    @property
    def given(self) -> tuple[str, ...]:
        """What a decoder reads while it writes."""
        return (*self.written[-1:], *self.written[:-1])

    def run(self) -> None:
        """Once, without dropout; taps and hooks see it."""
        was_training = self.network.training
        self.network.eval()
        try:
            with torch.no_grad():
                self.forward()
        finally:
            self.network.train(was_training)


def word_numbers(tokens: Sequence[str], pieces: bool) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The words, and for each token the number of its word; <mask> is a word by itself."""
    words: list[str] = []
    numbers: list[int] = []
    for masked, group in groupby(tokens, key=lambda token: token == MASK):
        some, number = words_of(list(group), merged=pieces and not masked)
        numbers += [len(words) + n for n in number]
        words += some
    return tuple(words), tuple(numbers)
