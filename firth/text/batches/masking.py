"""Masked tokens (Devlin et al. 2019, §3.1): some tokens are hidden, and the model predicts them.

In a window of T tokens, M = round(share · T) are chosen. As in the published code the number is fixed, so that all batches have
one shape; each token is chosen with probability share. Of the chosen tokens, 80 % become <mask>, 10 % a random token of the
vocabulary, and 10 % stay unchanged, drawn independently. <eos> and <unk> are never chosen, so a window with few other tokens
has fewer than M places; its list is padded with targets that do not count.

The choice is a hash of (seed, number of the window, position in it). Windows are numbered through all epochs, so each epoch masks
anew (dynamic masking; Liu et al. 2019), and a resumed run masks like an uninterrupted one. <mask> is not text: its id is the size
of the tokenizer's vocabulary. Letters: B rows, T tokens, M masked places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError
from firth.text.batches.padding import PADDING
from firth.text.batches.permutation import keys
from firth.text.batches.windows import TransformedWindows, transformed_sweep
from firth.text.tokenizers.special_tokens import Ids
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.text.tokenizers.whole_words import WordStarts

_CHOICE, _ACTION, _TOKEN, _SAMPLE = 2, 3, 4, 5  # the purposes of keys; 0 and 1 are those of the windows
_NEVER = np.uint64(2**64 - 1)
HIDDEN, CHANGED = 0.8, 0.1  # shares of the chosen tokens; the rest stays unchanged

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MaskedBatch:
    token_BT: Ints  # the input
    place_BM: Ints  # positions of the chosen tokens, in order; padded with 0
    target_BM: Ints  # the original tokens; padded with −1
    uniform_BM: NDArray[np.float32] | None = None  # random numbers from 0 up to 1, for a loss that samples at these places
    fresh: bool = True

    @property
    def tokens(self) -> int:
        """Input tokens; `places` of them are predicted."""
        return self.token_BT.size

    @property
    def places(self) -> int:
        return int((self.target_BM != PADDING).sum())


class Masking:
    """Chooses and hides tokens. With `whole_words`, all pieces of a word or none; the last word is skipped if it would exceed
    M places, so there may be a few fewer. With `uniform`, a batch also has a random number for each place."""

    def __init__(
        self, tokenizer: Tokenizer, share: float, *, whole_words: bool = False, seed: int = 0, uniform: bool = False
    ) -> None:
        self.mask, self.share, self.seed = tokenizer.vocab, share, seed
        self._uniform = uniform
        self._special = [id for id in (tokenizer.eos, tokenizer.unknown) if id is not None]
        self._begins = WordStarts(tokenizer) if whole_words else None

    def count(self, length: int) -> int:
        """M for a window of `length` tokens."""
        return max(1, round(self.share * length))

    def __call__(self, token_BT: Ints, window_B: NDArray[np.uint64]) -> MaskedBatch:
        """The windows `token_BT`, whose numbers are `window_B`, with their chosen tokens hidden."""
        length = token_BT.shape[1]
        number_BT = numbers(window_B, length, length)
        score_BT = np.where(np.isin(token_BT, self._special), _NEVER, self._draw(number_BT, _CHOICE))
        if self._begins is None:
            place_BM, chosen_BM = _smallest(score_BT, self.count(length))
        else:
            place_BM, chosen_BM = _smallest_words(score_BT, self._begins(token_BT), self.count(length))
        target_BM = np.where(chosen_BM, np.take_along_axis(token_BT, place_BM, 1), PADDING)
        number_BM = np.take_along_axis(number_BT, place_BM, 1)
        shown_BM = self._shown(target_BM, number_BM)
        read_BT = token_BT.copy()
        row_BM = np.broadcast_to(np.arange(len(token_BT))[:, None], place_BM.shape)
        read_BT[row_BM[chosen_BM], place_BM[chosen_BM]] = shown_BM[chosen_BM]
        uniform_BM = self._between_0_and_1(number_BM, _SAMPLE).astype(np.float32) if self._uniform else None
        return MaskedBatch(read_BT, np.where(chosen_BM, place_BM, 0), target_BM, uniform_BM)

    def _shown(self, target_BM: Ints, number_BM: NDArray[np.uint64]) -> Ints:
        """The input in place of the chosen tokens."""
        action_BM = self._between_0_and_1(number_BM, _ACTION)
        any_BM = (self._draw(number_BM, _TOKEN) % np.uint64(self.mask)).astype(np.int64)
        changed_BM = np.where(action_BM < HIDDEN + CHANGED, any_BM, target_BM)
        return np.where(action_BM < HIDDEN, self.mask, changed_BM)

    def _between_0_and_1(self, number: NDArray[np.uint64], purpose: int) -> NDArray[np.float64]:
        return (self._draw(number, purpose) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def _draw(self, number: NDArray[np.uint64], purpose: int) -> NDArray[np.uint64]:
        return keys(self.seed, number.ravel(), purpose).reshape(number.shape)


def numbers(window_B: NDArray[np.uint64], length: int, count: int) -> NDArray[np.uint64]:
    """Numbers for `count` items in each window of `length`, distinct across all windows."""
    return window_B[:, None] * np.uint64(length) + np.arange(count).astype(np.uint64)


def _smallest(score_BT: NDArray[np.uint64], count: int) -> tuple[Ints, NDArray[np.bool_]]:
    """The places of the `count` smallest scores of each row, in order, and which of them may be chosen at all."""
    place_BM = np.sort(np.argpartition(score_BT, count - 1, axis=1)[:, :count], axis=1)
    return place_BM, np.take_along_axis(score_BT, place_BM, 1) != _NEVER


def _smallest_words(score_BT: NDArray[np.uint64], begins_BT: NDArray[np.bool_], count: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Like `_smallest`, but all tokens of a word have the score of its first token, and incomplete words are dropped."""
    first_BT = np.maximum.accumulate(np.where(begins_BT, np.arange(score_BT.shape[1]), 0), axis=1)
    word_BT = np.take_along_axis(score_BT, first_BT, 1)
    order_BT = np.argsort(word_BT, axis=1, kind="stable")
    place_BM = order_BT[:, :count]
    first_BM = np.take_along_axis(first_BT, place_BM, 1)
    whole_BM = np.ones(place_BM.shape, np.bool_)
    if count < score_BT.shape[1]:
        whole_BM = first_BM != np.take_along_axis(first_BT, order_BT[:, count : count + 1], 1)
    chosen_BM = whole_BM & (np.take_along_axis(word_BT, place_BM, 1) != _NEVER)
    order_BM = np.argsort(place_BM, axis=1)
    return np.take_along_axis(place_BM, order_BM, 1), np.take_along_axis(chosen_BM, order_BM, 1)


class MaskedWindows(TransformedWindows[MaskedBatch]):
    """Windows of running text in shuffled order, masked."""

    def __init__(self, ids: Ids, batch: int, context: int, masking: Masking) -> None:
        super().__init__(ids, batch, context, masking.seed, masking)

    def next(self) -> MaskedBatch:
        made = super().next()
        if not made.places:
            raise DataError(
                f"none of the {made.tokens:,} tokens of a batch can be masked: they are <eos> or <unk>, or, with whole words, "
                "the words are too long. Use a larger training.batch or training.context, or more text."
            )
        return made


def masked_sweep(ids: Ids, batch: int, context: int, masking: Masking) -> Iterator[MaskedBatch]:
    """All windows of the text once, masked."""
    return transformed_sweep(ids, batch, context, masking)
