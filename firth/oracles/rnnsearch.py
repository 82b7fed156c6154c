"""RNNsearch as a student would first write it (Bahdanau et al. 2015): one sentence, one step and one source word at a time, in
float64, without torch.

    α_t = softmax over s of v·tanh(W h_{t−1} + U m_s)      c_t = Σ_s α_ts m_s
    R_t = σ(W_rh h_{t−1} + W_re e_t + W_rc c_t)            Z_t = σ(W_zh h_{t−1} + W_ze e_t + W_zc c_t)
    h̃_t = tanh(W_hh (R_t⊙h_{t−1}) + W_he e_t + W_hc c_t)   h_t = Z_t⊙h_{t−1} + (1 − Z_t)⊙h̃_t
    ŷ_t = softmax(W_yh h_t + W_ye e_t + W_yc c_t)

Letters: T target, S source, e embedding, m memory, d width, A comparison, V vocabulary. Every sum has a bias.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Sum(NamedTuple):
    """W_h h + W_e e + W_c c + b."""

    W_h: Array
    W_e: Array
    W_c: Array
    b: Array

    def of(self, h_d: Array, e_e: Array, c_m: Array) -> Array:
        return self.W_h @ h_d + self.W_e @ e_e + self.W_c @ c_m + self.b


class RnnSearchDecoder(NamedTuple):
    v_A: Array
    W_Ad: Array
    U_Am: Array
    reset: Sum
    update: Sum
    candidate: Sum
    output: Sum


class RnnSearchTrace(NamedTuple):
    alignment_TS: Array
    context_Tm: Array
    h_Td: Array
    probability_TV: Array


def decode(embedded_Te: Array, memory_Sm: Array, h_d: Array, decoder: RnnSearchDecoder) -> RnnSearchTrace:
    alignments, contexts, hidden, probabilities = [], [], [], []
    for e_e in embedded_Te:
        score_S = [float(decoder.v_A @ np.tanh(decoder.W_Ad @ h_d + decoder.U_Am @ m_m)) for m_m in memory_Sm]
        alpha_S = softmax(np.array(score_S))
        c_m = sum((alpha * m_m for alpha, m_m in zip(alpha_S, memory_Sm, strict=True)), np.zeros(memory_Sm.shape[1]))
        reset_d = sigmoid(decoder.reset.of(h_d, e_e, c_m))
        update_d = sigmoid(decoder.update.of(h_d, e_e, c_m))
        candidate_d = np.tanh(decoder.candidate.of(reset_d * h_d, e_e, c_m))
        h_d = update_d * h_d + (1 - update_d) * candidate_d
        alignments.append(alpha_S)
        contexts.append(c_m)
        hidden.append(h_d)
        probabilities.append(softmax(decoder.output.of(h_d, e_e, c_m)))
    return RnnSearchTrace(*(np.array(rows) for rows in (alignments, contexts, hidden, probabilities)))


def sigmoid(x: Array) -> Array:
    return np.array([1 / (1 + math.exp(-value)) for value in x])


def softmax(x: Array) -> Array:
    weight = np.exp(x - x.max())
    return np.asarray(weight / weight.sum())
