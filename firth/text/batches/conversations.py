"""Encoded conversations and batches of them: whole ones, of similar length. Only the answers have targets.

Letters: N conversations, B rows of a batch, T tokens of its longest. The conversations are held in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.text.batches import Seekable
from firth.text.batches.buckets import Buckets, Sweepable
from firth.text.batches.padding import PADDING, Ints, concatenated, padded_rows
from firth.text.conversation import Rendered


@dataclass(frozen=True, slots=True)
class ConversationBatch:
    token_BT: NDArray[np.int64]  # all tokens but the last of each conversation; padded with 0
    target_BT: NDArray[np.int64]  # the next token where it is the assistant's, otherwise −1
    fresh: bool = True

    @property
    def tokens(self) -> int:
        """Predicted tokens: those of the answers, <end> included."""
        return int((self.target_BT != PADDING).sum())


@dataclass(frozen=True)
class EncodedConversations(Sweepable[ConversationBatch]):
    """Inputs and targets of all conversations, concatenated."""

    ids: Ints
    targets: Ints
    starts: Ints  # where each conversation begins, and where the last one ends: N + 1 numbers

    @classmethod
    def of(cls, rendered: Sequence[Rendered]) -> EncodedConversations:
        inputs = [one.ids[:-1].astype(np.int64) for one in rendered]
        targets = [np.where(one.learned[1:], one.ids[1:].astype(np.int64), PADDING) for one in rendered]
        ids, starts = concatenated(inputs)
        return cls(ids.astype(np.int64), concatenated(targets)[0].astype(np.int64), starts)

    @property
    def tokens(self) -> int:
        """Predicted tokens."""
        return int((self.targets != PADDING).sum())

    def batch(self, row_B: Ints) -> ConversationBatch:
        token_BT, _ = padded_rows(self.ids, self.starts, row_B)
        return ConversationBatch(token_BT, padded_rows(self.targets, self.starts, row_B, PADDING)[0])


@dataclass(frozen=True, slots=True)
class PackedBatch:
    token_BT: NDArray[np.int64]  # padded with 0
    target_BT: NDArray[np.int64]  # the next token of the same conversation where it is the assistant's, otherwise −1
    document_BT: NDArray[np.int64]  # 0, 1, … ; the padding at the end has a number of its own
    fresh: bool = True

    @property
    def tokens(self) -> int:
        """Predicted tokens: those of the answers, <end> included."""
        return int((self.target_BT != PADDING).sum())


def windows(length_N: Ints, room: int) -> list[list[int]]:
    """The conversations of each window of `room` tokens; none is longer."""
    packed: list[list[int]] = []
    open_with: list[list[int]] = [[] for _ in range(room + 1)]  # windows by the room that they have left
    for n in np.argsort(-length_N, kind="stable").tolist():
        length = int(length_N[n])
        left = next((left for left in range(length, room + 1) if open_with[left]), None)
        if left is None:
            left = room
            open_with[room].append(len(packed))
            packed.append([])
        window = open_with[left].pop()
        packed[window].append(n)
        open_with[left - length].append(window)
    return packed


class PackedConversations(Seekable):
    """Batches of `batch` windows of `context` tokens, with several conversations in each row, so that little is padding.

    Best fit, longest first: each conversation goes into the window with the least room that still holds it. The windows stay the
    same in every epoch; their order is drawn anew. `document_BT` numbers the conversations of a row, for the mask that keeps them
    apart. W windows, T tokens of a window."""

    def __init__(self, conversations: EncodedConversations, batch: int, context: int, seed: int) -> None:
        self._conversations, self._context = conversations, context
        self._windows = windows(conversations.length_N, context)
        self._buckets = Buckets(np.full(len(self._windows), context), batch, seed)

    def next(self) -> PackedBatch:
        row_B = self._buckets.rows(self.position)
        self.position += 1
        return packed([self._windows[row] for row in row_B], self._conversations, self._context)


def packed(rows: list[list[int]], conversations: EncodedConversations, context: int) -> PackedBatch:
    """Each row holds the conversations of that list, one after another."""
    shape = (len(rows), context)
    token_BT, target_BT = np.zeros(shape, np.int64), np.full(shape, PADDING, np.int64)
    document_BT = np.zeros(shape, np.int64)
    for b, row in enumerate(rows):
        first = 0
        for number, n in enumerate(row):
            start, end = int(conversations.starts[n]), int(conversations.starts[n + 1])
            last = first + end - start
            token_BT[b, first:last] = conversations.ids[start:end]
            target_BT[b, first:last] = conversations.targets[start:end]
            document_BT[b, first:last] = number
            first = last
        document_BT[b, first:] = len(row)
    return PackedBatch(token_BT, target_BT, document_BT)
