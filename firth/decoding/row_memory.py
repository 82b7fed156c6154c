"""Which text is in which row of the engine's memory, and what the other rows still hold.

The rows of the texts that write are the first n, so that a step is one call. The other rows keep what was left in them, as long
as nobody needs them: a prompt that begins with the same tokens starts from there.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from firth.decoding.separate_rows import SeparateRows
from firth.decoding.stream import Stream
from firth.layers.state import AttentionState, KeyValue
from firth.models import LanguageModel


class RowMemory:
    def __init__(self, model: LanguageModel, rows: int, capacity: int | None) -> None:
        self.model, self.rows, self.capacity = model, rows, capacity
        self.forget()

    def forget(self) -> None:
        """Start again with empty memory."""
        self.streams: list[Stream] = []  # stream n is in row n
        self._slots = SeparateRows(self.model, self.rows, self.capacity)
        self._kept: list[list[int]] = [[] for _ in range(self.rows)]  # the tokens in the rows from n on
        self._used = [0] * self.rows  # when a kept row was last used
        self._clock = itertools.count(1)

    def step(self, token_n1: Tensor) -> Tensor:
        """logits_nV after one more token of each text."""
        return self._slots.step(token_n1, len(self.streams))[:, -1]

    def join(self, stream: Stream) -> None:
        """Give a text that has read its prompt the next row."""
        row = len(self.streams)
        self._clear(row)
        self._slots.put(row, stream.state)
        stream.state = None
        self.streams.append(stream)

    def leave(self, stream: Stream, keep: bool) -> None:
        """Take a text out; the last one moves into its row."""
        row, last = self.streams.index(stream), len(self.streams) - 1
        tokens = stream.window[: stream.read] if keep else []
        if row != last:
            left = self._slots.row(row).select(torch.zeros(1, dtype=torch.int64)) if tokens else None
            self._slots.move(last, row)
            if left is not None:
                self._slots.put(last, left)
        self.streams[row] = self.streams[last]
        self.streams.pop()
        self._keep(last, tokens)

    def keep(self, stream: Stream) -> None:
        """Keep the memory of a text that ends before it writes, if there is a row that nobody needs."""
        if len(self.streams) < self.rows:
            row = self._oldest()
            self._slots.put(row, stream.state)
            self._keep(row, stream.window[: stream.read])

    def longest_prefix(self, window: Sequence[int]) -> tuple[Any, int] | None:
        """A memory that holds the first tokens of `window`, but not all of them, and how many. None if there is none."""
        best, best_row = 0, -1
        for row in range(self.rows):
            held = self.streams[row].window[: self.streams[row].read] if row < len(self.streams) else self._kept[row]
            count = common(held, window[:-1])
            if count > best and (count == len(held) or can_be_cut(self._slots.row(row))):
                best, best_row = count, row
        if not best:
            return None
        self._used[best_row] = next(self._clock)
        return cut(self._slots.row(best_row), best), best

    def _clear(self, row: int) -> None:
        """Make room in `row`: what is kept there replaces what was used longest ago."""
        oldest = self._oldest()
        if oldest != row:
            self._slots.move(row, oldest)
            self._kept[oldest], self._used[oldest] = self._kept[row], self._used[row]
        self._kept[row] = []

    def _oldest(self) -> int:
        return min(range(len(self.streams), self.rows), key=lambda row: self._used[row])

    def _keep(self, row: int, tokens: list[int]) -> None:
        self._kept[row], self._used[row] = tokens, next(self._clock) if tokens else 0


def common(left: Sequence[int], right: Sequence[int]) -> int:
    """The number of tokens with which both begin."""
    return next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def can_be_cut(state: Any) -> bool:
    return isinstance(state, AttentionState) and all(isinstance(layer, KeyValue) for layer in state.layers)


def cut(state: Any, length: int) -> Any:
    """The state of the first tokens; what cannot be cut has only those."""
    if not can_be_cut(state):
        return state
    return AttentionState(tuple(KeyValue(layer.store, length) for layer in state.layers))
