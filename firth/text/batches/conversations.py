"""Encoded conversations and batches of them: whole ones, of similar length. Only the answers have targets.

Letters: N conversations, B rows of a batch, T tokens of its longest. The conversations are held in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.text.batches.buckets import Sweepable
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
