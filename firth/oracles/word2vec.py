"""word2vec as published: pairs, objectives and gradient steps, in float64, without torch or optimisations.

Letters: V vocabulary, d dimension, R inputs (v), T targets (u).
Every objective is a loss to minimise: −log likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Word = TypeVar("Word")


def pairs(sentence: Sequence[Word], window: int) -> list[tuple[Word, Word]]:
    """Every (word, neighbour) with the neighbour at most `window` positions away, in text order."""
    word_pairs = []
    for place, word in enumerate(sentence):
        word_pairs += [(word, neighbor) for neighbor in neighbors(sentence, place, window)]
    return word_pairs


def neighbors(sentence: Sequence[Word], place: int, window: int) -> list[Word]:
    """The context of a word: up to `window` words to its left and up to `window` to its right."""
    return [*sentence[max(place - window, 0) : place], *sentence[place + 1 : place + window + 1]]


def softmax_loss(v_d: Array, output_Vd: Array, target: int) -> float:
    """−log p(c | w) = −u_c · v + log Σ_c' e^(u_c' · v)."""
    score_V = [_dot(u_d, v_d) for u_d in output_Vd]
    highest = max(score_V)
    return highest + math.log(sum(math.exp(score - highest) for score in score_V)) - score_V[target]


def sigmoid_loss(v_d: Array, targets_Td: Array, sign_T: Sequence[float]) -> float:
    """−Σ_t log σ(s_t u_t · v).

    Negative sampling: s = +1 for the observed word and −1 for each negative sample. Hierarchical softmax: u_t are the
    inner nodes on the path to the word, and s = +1 for bit 0 and −1 for bit 1.
    """
    return sum(_softplus(-sign * _dot(u_d, v_d)) for u_d, sign in zip(targets_Td, sign_T, strict=True))


class StepLoss(NamedTuple):
    loss: float
    terms: int


def step(
    input_Vd: Array,
    output_Vd: Array,
    window: Sequence[int],
    targets: Sequence[int],
    sign_T: Sequence[float],
    rate: float,
    cbow: bool,
    divided: bool = False,
) -> StepLoss:
    """One step of gradient descent on Σ sigmoid_loss over the inputs that predict one word, in place.

    Skip-gram: one input for each word of the window. CBOW: one input, their mean; each word of the window then receives the full
    gradient of the mean, as in word2vec, or if `divided` the exact gradient, divided by the number of words.
    """
    inputs_Rd = _inputs(input_Vd, window, cbow)
    input_change, output_change = np.zeros_like(input_Vd), np.zeros_like(output_Vd)
    loss = 0.0
    for r, v_d in enumerate(inputs_Rd):
        loss += sigmoid_loss(v_d, output_Vd[list(targets)], sign_T)
        for target, sign in zip(targets, sign_T, strict=True):
            g = sign * _sigmoid(-sign * _dot(output_Vd[target], v_d))
            output_change[target] += g * v_d
            for word in window if cbow else [window[r]]:
                input_change[word] += g * output_Vd[target] / (len(window) if cbow and divided else 1)
    input_Vd += rate * input_change
    output_Vd += rate * output_change
    return StepLoss(loss, len(inputs_Rd))


def softmax_step(
    input_Vd: Array, output_Vd: Array, window: Sequence[int], target: int, rate: float, cbow: bool, divided: bool = False
) -> StepLoss:
    """The same step for softmax_loss: g_c = [c = target] − p(c | v) for every word c of the vocabulary."""
    inputs_Rd = _inputs(input_Vd, window, cbow)
    input_change, output_change = np.zeros_like(input_Vd), np.zeros_like(output_Vd)
    loss = 0.0
    for r, v_d in enumerate(inputs_Rd):
        loss += softmax_loss(v_d, output_Vd, target)
        for c in range(len(output_Vd)):
            g = (c == target) - math.exp(-softmax_loss(v_d, output_Vd, c))
            output_change[c] += g * v_d
            for word in window if cbow else [window[r]]:
                input_change[word] += g * output_Vd[c] / (len(window) if cbow and divided else 1)
    input_Vd += rate * input_change
    output_Vd += rate * output_change
    return StepLoss(loss, len(inputs_Rd))


def _inputs(input_Vd: Array, window: Sequence[int], cbow: bool) -> list[Array]:
    vectors = [input_Vd[word].copy() for word in window]
    return [sum(vectors, np.zeros(input_Vd.shape[1])) / len(vectors)] if cbow else vectors


def _dot(a: Array, b: Array) -> float:
    return math.fsum(float(left) * float(right) for left, right in zip(a, b, strict=True))


def _softplus(x: float) -> float:
    """log(1 + e^x) = −log σ(−x); e^x would overflow a float64 above 709."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))
