"""Denoising (Lewis et al. 2020, BART, §2.2): a window of text is corrupted, and the target is the original window.

    the window     Thank you for inviting me . The party was fun .
    permute        The party was fun . Thank you for inviting me .           whole sentences, in random order
    rotate         inviting me . The party was fun . Thank you for           from a random token on
    infill         Thank you <mask> me . The <mask> party was fun .          each span → one <mask>; one of length 0 inserts it
    mask           Thank you <mask> inviting me . The party <mask> fun .     each token → its own <mask>
    delete         Thank you inviting me . The party was .                   nothing tells where a token is missing

The noises apply in this order, and the last three choose different tokens. Of a window of T tokens, round(infill · T) are covered
by spans, round(mask · T) of the others become <mask> and round(delete · T) are deleted; at least one of a noise that is on, and
one token always stays. Span lengths are Poisson(length), drawn until the spans cover their share, with the last one shortened to
fit. There are at most as many spans as tokens to cover, so a source is never longer than its window; if only the last of them is
left, it takes the rest. Every arrangement of the spans among the other tokens is equally probable.

A sentence ends after <eos>, a token with a newline, or a token that ends with . ! ? or their full-width forms. Several of these
in a row end one sentence, and white space between or after them belongs to it. The first and the last sentence of a window may be
incomplete and move like the others.

Source and target end with <eos>; <mask> is not text, and its id is the number of the tokenizer's tokens. Everything is a hash of
(seed, number of the window, place in it), and windows are counted through all epochs. Letters: B rows, T tokens, N tokens covered
by spans (and so at most N spans), R tokens outside them, S source.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.errors import DataError
from firth.text.batches.masking import numbers
from firth.text.batches.pairs import PairBatch
from firth.text.batches.permutation import keys
from firth.text.tokenizers.special_tokens import EOS
from firth.text.tokenizers.tokenizer import Tokenizer

_SENTENCE, _START, _LENGTH, _SLOT, _CHOICE = range(2, 7)  # what keys are for; 0 and 1 are those of the windows
_NEVER = np.uint64(2**64 - 1)
_FINAL = tuple(".!?。！？")

Ints = NDArray[np.int64]
UInts = NDArray[np.uint64]


@dataclass(frozen=True)
class Noise:
    """The five noises; the default is the paper's best. Shares are of the tokens of a window."""

    mask: float = 0.0
    delete: float = 0.0
    infill: float = 0.3
    length: float = 3.0  # mean, of an infilling span
    permute: bool = True
    rotate: bool = False

    def counts(self, tokens: int) -> tuple[int, int, int]:
        """The numbers of tokens of a window that are covered by spans, masked and deleted."""
        counts, left = [], tokens - 1
        for share in (self.infill, self.mask, self.delete):
            counts.append(min(max(1, round(share * tokens)) if share else 0, left))
            left -= counts[-1]
        infilled, masked, deleted = counts
        return infilled, masked, deleted


class Denoising:
    """Corrupts whole windows of `context` tokens, or shorter ones, by `noise`."""

    def __init__(self, tokenizer: Tokenizer, context: int, noise: Noise, seed: int = 0) -> None:
        if tokenizer.eos is None:
            raise DataError(
                "the vocabulary has no <eos>, which ends each target of denoising. Start from a run whose vocabulary has one, or "
                "remove training.init."
            )
        self.mask, self.end = tokenizer.vocab, tokenizer.eos
        self.context, self.noise, self.seed = context, noise, seed
        tokens = [tokenizer.token(id) for id in range(tokenizer.vocab)]
        self._final_V = np.array([_ends_sentence(token) for token in tokens])
        self._blank_V = np.array([token.isspace() for token in tokens]) & ~self._final_V
        self._below = _cumulative_poisson(noise.length)

    def __call__(self, token_BT: Ints, window_B: UInts) -> PairBatch:
        """The windows `token_BT`, whose numbers are `window_B`, as corrupted sources and original targets."""
        B, T = token_BT.shape
        moved_BT = token_BT
        if self.noise.permute:
            moved_BT = self._permuted(moved_BT, window_B)
        if self.noise.rotate:
            moved_BT = self._rotated(moved_BT, window_B)
        source_BS, source_length_B = self._hidden(moved_BT, window_B)
        end_B1 = np.full((B, 1), self.end)
        target_BT, input_BT = np.concatenate((token_BT, end_B1), axis=1), np.concatenate((end_B1, token_BT), axis=1)
        return PairBatch(source_BS, source_length_B, input_BT, target_BT, np.full(B, T + 1))

    def _permuted(self, token_BT: Ints, window_B: UInts) -> Ints:
        """The sentences in the order of a random key each."""
        T = token_BT.shape[1]
        final_BT, blank_BT = self._final_V[token_BT], self._blank_V[token_BT]
        last_BT = np.maximum.accumulate(np.where(blank_BT, 0, np.arange(T)), axis=1)  # the last place that is not white space
        begins_BT = np.zeros(token_BT.shape, np.int64)
        begins_BT[:, 1:] = np.take_along_axis(final_BT, last_BT[:, :-1], 1) & ~(final_BT | blank_BT)[:, 1:]
        key_BT = np.take_along_axis(self._keys(window_B, T, _SENTENCE), begins_BT.cumsum(axis=1), 1)
        return np.take_along_axis(token_BT, np.argsort(key_BT, axis=1, kind="stable"), 1)

    def _rotated(self, token_BT: Ints, window_B: UInts) -> Ints:
        T = token_BT.shape[1]
        start_B = (keys(self.seed, window_B, _START) % np.uint64(T)).astype(np.int64)
        return np.take_along_axis(token_BT, (start_B[:, None] + np.arange(T)) % T, 1)

    def _hidden(self, token_BT: Ints, window_B: UInts) -> tuple[Ints, Ints]:
        """The tokens infilled, masked and deleted, with <eos>, padded with 0; and how many there are.

        Spans and the tokens outside them stand in slots; a slot covers the tokens of its span, or one token."""
        B, T = token_BT.shape
        infilled, masked, deleted = self.noise.counts(T)
        length_BN, spans_B = self._span_lengths(infilled, window_B)
        unused_BT = np.arange(T) >= (T - infilled + spans_B)[:, None]
        rank_BT = _ranks(np.where(unused_BT, _NEVER, self._keys(window_B, T, _SLOT)))
        span_BT = rank_BT < spans_B[:, None]  # and its rank is the number of its span, so that the shortened one is anywhere
        alone_BT = ~span_BT & ~unused_BT
        length_BT = np.take_along_axis(length_BN, np.minimum(rank_BT, length_BN.shape[1] - 1), 1)
        covers_BT = np.where(span_BT, length_BT, alone_BT)
        first_BT = np.minimum(covers_BT.cumsum(axis=1) - covers_BT, T - 1)

        choice_BR = _ranks(self._keys(window_B, T - infilled, _CHOICE))
        choice_BT = np.take_along_axis(choice_BR, np.maximum(alone_BT.cumsum(axis=1) - 1, 0), 1)
        masked_BT = span_BT | (alone_BT & (choice_BT < masked))
        stays_BT = span_BT | (alone_BT & ~((masked <= choice_BT) & (choice_BT < masked + deleted)))
        shown_BT = np.where(masked_BT, self.mask, np.take_along_axis(token_BT, first_BT, 1))

        count_B1 = stays_BT.sum(axis=1, keepdims=True)
        order_BT = np.argsort(~stays_BT, axis=1, kind="stable")
        source_BS = np.zeros((B, T - deleted + 1), np.int64)
        source_BS[:, :-1] = np.take_along_axis(shown_BT, order_BT, 1)[:, : T - deleted]
        place_S = np.arange(source_BS.shape[1])
        source_BS = np.where(place_S < count_B1, source_BS, np.where(place_S == count_B1, self.end, 0))
        return source_BS, count_B1[:, 0] + 1

    def _span_lengths(self, covered: int, window_B: UInts) -> tuple[Ints, Ints]:
        """The lengths of each window's spans, which together are `covered`, and how many there are."""
        uniform_BN = (self._keys(window_B, max(1, covered), _LENGTH) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        drawn_BN = np.searchsorted(self._below, uniform_BN, side="right")
        before_BN = drawn_BN.cumsum(axis=1) - drawn_BN
        used_BN = before_BN < covered
        length_BN = np.where(used_BN, np.minimum(drawn_BN, covered - before_BN), 0)
        length_BN[:, -1] += covered - length_BN.sum(axis=1)  # nothing, unless all spans together are still too short
        return length_BN, used_BN.sum(axis=1)

    def _keys(self, window_B: UInts, count: int, purpose: int) -> UInts:
        number = numbers(window_B, self.context, count)
        return keys(self.seed, number.ravel(), purpose).reshape(number.shape)


def _ranks(score: UInts) -> Ints:
    """The rank of each score in its row; equal scores in their order."""
    return np.argsort(np.argsort(score, axis=1, kind="stable"), axis=1, kind="stable")


def _ends_sentence(token: str) -> bool:
    return token == EOS or "\n" in token or token.rstrip().endswith(_FINAL)


def _cumulative_poisson(mean: float) -> NDArray[np.float64]:
    """P(length ≤ k) = Σ_{i ≤ k} e^−λ λ^i / i!, until a float64 cannot distinguish it from 1."""
    most = math.ceil(mean + 12 * math.sqrt(mean) + 30)
    return np.cumsum([math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(most)])
