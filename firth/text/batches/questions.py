"""Questions with windows of their contexts, encoded, and batches of them.

Letters: N windows, B rows of a batch, T tokens of its longest. Everything is held in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firth.errors import DataError
from firth.text.batches.buckets import Bucketed, Sweepable
from firth.text.batches.padding import Ints, padded_rows
from firth.text.readers.squad import Question
from firth.text.tokenizers.special_tokens import Ids

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class AnswerBatch:
    token_BT: Ints  # padded with 0; the model reads the first `length_B` of each row
    length_B: Ints
    first_B: Ints  # where the context begins; it ends before the last token of a row, <eos>
    start_B: Ints  # the first token of the answer
    end_B: Ints  # its last token
    fresh: bool = True

    @property
    def tokens(self) -> int:
        """Without padding."""
        return int(self.length_B.sum())


@dataclass(frozen=True)
class QuestionWindows(Sweepable[AnswerBatch]):
    """The windows of all questions, concatenated."""

    questions: tuple[Question, ...]
    ids: Ids
    starts: Ints  # where each window begins, and where the last one ends: N + 1 numbers
    first_N: Ints  # as in an AnswerBatch; start and end are NOWHERE if the answer is not in the window
    start_N: Ints
    end_N: Ints
    question_N: Ints  # the question that a window belongs to
    span_2: Ints  # for each token, its span of characters in the context; NOWHERE for the question and <eos>

    @property
    def answered(self) -> Ints:
        """The windows that hold their answer, to learn from."""
        return np.flatnonzero(self.start_N != NOWHERE)

    @property
    def several(self) -> int:
        """The number of questions whose context does not fit into one window."""
        return int((np.bincount(self.question_N, minlength=len(self.questions)) > 1).sum())

    def batch(self, row_B: Ints) -> AnswerBatch:
        token_BT, length_B = padded_rows(self.ids, self.starts, row_B)
        return AnswerBatch(token_BT, length_B, self.first_N[row_B], self.start_N[row_B], self.end_N[row_B])

    def bucketed(self, batch: int, seed: int) -> Bucketed[AnswerBatch]:
        """For training: windows of similar length that hold their answer, in random order."""
        rows = self.answered
        if not len(rows):
            raise DataError("no answer fits completely into a window of its context. Raise training.context.")
        return Bucketed(lambda row_B: self.batch(rows[row_B]), self.length_N[rows], batch, seed)

    def text(self, window: int, start: int, end: int) -> tuple[str, int]:
        """The text of the context from token `start` to token `end` of a window, and its first character, without the white
        space that some tokens include."""
        context = self.questions[self.question_N[window]].context
        begin, stop = (int(self.span_2[self.starts[window] + token, side]) for token, side in ((start, 0), (end, 1)))
        part = context[begin:stop]
        return part.strip(), begin + len(part) - len(part.lstrip())
