"""Dropout for recurrent models. Letters: B batch, T time, V vocabulary, d width, e embedding width."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def dropout(x_BTd: Tensor, rate: float, locked: bool) -> Tensor:
    """m⊙x / (1 − p), m ~ Bernoulli(1 − p). The mask m has one entry per number or, if `locked`, one per row and feature, used
    at all T positions: a dropped unit is missing from the whole window (Gal & Ghahramani 2016; Merity et al. 2018, §4.2)."""
    if not (locked and rate):
        return F.dropout(x_BTd, rate)
    B, _, d = x_BTd.shape
    return x_BTd * F.dropout(x_BTd.new_ones(B, 1, d), rate)


def dropout_words(x_BTe: Tensor, token_BT: Tensor, vocab: int, rate: float) -> Tensor:
    """Drop whole words from the embedded tokens: one m_w ~ Bernoulli(1 − p) per word w, wherever w occurs in the batch (Gal &
    Ghahramani 2016; Merity et al. 2018, §4.3). Equal to dropping rows of the embedding, without copying it."""
    if not rate:
        return x_BTe
    keep_V1 = F.dropout(x_BTe.new_ones(vocab, 1), rate)
    return x_BTe * keep_V1[token_BT]
