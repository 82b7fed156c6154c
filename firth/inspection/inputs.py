"""The input of an inspection: a forward pass to run, and the names of its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import nn

from firth.inspection.merge_pieces import words_of

MASK = "<mask>"  # the name of a masked token


@dataclass(frozen=True, eq=False)
class Reading:
    """`forward` is one ordinary forward pass of the network. The input of a decoder is <eos>, followed by its output shifted by
    one step."""

    network: nn.Module
    forward: Callable[[], Any]
    tokens: tuple[str, ...]  # input tokens; for sentence pairs, the source
    written: tuple[str, ...] = ()  # output tokens of a decoder, <eos> last
    pieces: bool = True  # whether tokens may be subwords

    @property
    def given(self) -> tuple[str, ...]:
        """The input tokens of the decoder."""
        return (*self.written[-1:], *self.written[:-1])

    def run(self) -> None:
        """Run the forward pass once, without dropout; taps and hooks are called."""
        was_training = self.network.training
        self.network.eval()
        try:
            with torch.no_grad():
                self.forward()
        finally:
            self.network.train(was_training)


def word_numbers(tokens: Sequence[str], pieces: bool) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The words, and for each token the index of its word; <mask> is a word of its own."""
    words: list[str] = []
    numbers: list[int] = []
    for masked, group in groupby(tokens, key=lambda token: token == MASK):
        some, number = words_of(list(group), merged=pieces and not masked)
        numbers += [len(words) + n for n in number]
        words += some
    return tuple(words), tuple(numbers)
