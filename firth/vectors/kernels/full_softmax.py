"""Exact softmax over a small vocabulary: p(c | v) = e^(u_c · v) / Σ_c' e^(u_c' · v). Every step updates every u_c'.

Inputs, targets and steps are those of training_loop.py, `faithful` ones included; only the loss differs.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, assignment"

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numba import types

from firth.text.compilation import compile_once, compiled_loosely
from firth.vectors.kernels.contract import Counts, Floats, Ids, Longs
from firth.vectors.kernels.random_draws import draw_spans, subsample
from firth.vectors.sampling import keep_probability, thresholds

if TYPE_CHECKING:
    from firth.vectors.config import VectorsConfig

SIGNATURE = types.UniTuple(types.float64, 3)(
    types.Array(types.uint32, 1, "C", readonly=True),  # ids
    types.Array(types.int64, 1, "C", readonly=True),  # ends
    types.int64,  # first
    types.int64,  # last
    types.float64,  # rate_first
    types.float64,  # rate_last
    types.uint64,  # seed
    types.boolean,  # cbow
    types.boolean,  # faithful
    types.int64,  # window
    types.float32[:, ::1],  # input_Vd
    types.float32[:, ::1],  # output_Vd
    types.Array(types.uint32, 1, "C", readonly=True),  # keep_V
)


@compiled_loosely
def train_exactly(ids, ends, first, last, rate_first, rate_last, seed, cbow, faithful, window, input_Vd, output_Vd, keep_V):
    begin = ends[first - 1] if first > 0 else 0
    words = ends[last - 1] - begin
    longest = 0
    at = begin
    for s in range(first, last):
        longest = max(longest, ends[s] - at)
        at = ends[s]
    V, d = output_Vd.shape
    kept, span = np.empty(longest, np.uint32), np.empty(longest, np.int64)
    v_Rd, change_Rd = np.empty((2 * window, d), np.float32), np.empty((2 * window, d), np.float32)
    g_RV = np.empty((2 * window, V), np.float32)
    word_R, target_C = np.empty(2 * window + 1, np.int64), np.empty(2 * window, np.int64)
    loss, terms = 0.0, 0
    state = seed
    start = begin
    for s in range(first, last):
        n, state = subsample(ids, start, ends[s], keep_V, state, kept)
        state = draw_spans(n, window, state, span)
        rate = np.float32(rate_first + (rate_last - rate_first) * ((start - begin) / words))
        start = ends[s]
        for i in range(n):
            C = 0
            for j in range(max(i - span[i], 0), min(i + span[i] + 1, n)):
                word_R[C] = kept[j]
                C += np.int64(j != i)
            if C == 0:
                continue
            steps, share = 1, np.float32(1)
            target_C[0] = kept[i]
            if faithful and cbow:
                share /= np.float32(C)
            elif faithful:  # the word predicts each word of its window, one step each
                target_C[:C] = word_R[:C]
                word_R[0] = kept[i]
                steps, C = C, 1
            R = 1 if cbow else C
            for step in range(steps):
                gather(input_Vd, word_R, C, cbow, v_Rd)
                for r in range(R):
                    loss += softmax_gradient(output_Vd, v_Rd[r], target_C[step], rate, g_RV[r])
                spread(output_Vd, v_Rd, g_RV, R, change_Rd)
                for c in range(C):
                    for m in range(d):
                        input_Vd[word_R[c], m] += share * change_Rd[0 if cbow else c, m]
                terms += R
    return loss, np.float64(terms), np.float64(words)


@compiled_loosely
def gather(input_Vd, word_R, C, cbow, v_Rd):
    """The inputs of a step: the C vectors of the window, or for CBOW their mean, in row 0."""
    d = input_Vd.shape[1]
    for c in range(C):
        for m in range(d):
            if not cbow:
                v_Rd[c, m] = input_Vd[word_R[c], m]
            elif c == 0:
                v_Rd[0, m] = input_Vd[word_R[0], m] / C
            else:
                v_Rd[0, m] += input_Vd[word_R[c], m] / C


@compiled_loosely
def softmax_gradient(output_Vd, v_d, target, rate, g_V):
    """g_c = η ([c = target] − p(c | v)); returns −log p(target | v)."""
    V, d = output_Vd.shape
    highest = np.float32(-np.inf)
    for c in range(V):
        x = np.float32(0)
        for m in range(d):
            x += output_Vd[c, m] * v_d[m]
        g_V[c] = x
        highest = max(highest, x)
    total = 0.0
    at = g_V[target]
    for c in range(V):
        g_V[c] = np.exp(g_V[c] - highest)  # subtract the maximum: e^89 overflows float32
        total += g_V[c]
    share = np.float32(rate / total)
    for c in range(V):
        g_V[c] *= -share
    g_V[target] += rate
    return np.log(total) + highest - at


@compiled_loosely
def spread(output_Vd, v_Rd, g_RV, R, change_Rd):
    """change_r = Σ_c g_rc u_c from the old u, and u_c ← u_c + Σ_r g_rc v_r."""
    V, d = output_Vd.shape
    change_Rd[:R] = 0
    for c in range(V):
        for r in range(R):
            g = g_RV[r, c]
            for m in range(d):
                change_Rd[r, m] += g * output_Vd[c, m]
        for r in range(R):
            g = g_RV[r, c]
            for m in range(d):
                output_Vd[c, m] += g * v_Rd[r, m]


class ExactKernel:
    """train_exactly() bound to the matrices and the subsampling table of one vocabulary."""

    def __init__(
        self,
        config: VectorsConfig,
        count_V: Longs,
        input_Vd: Floats,
        output_Vd: Floats,
        compiling: Callable[[], None] | None,
    ) -> None:
        self.config, self.matrices = config, (input_Vd, output_Vd)
        self.keep_V = thresholds(keep_probability(count_V, config.sample))
        compile_once(train_exactly, SIGNATURE, compiling)

    def __call__(self, ids: Ids, ends: Longs, first: int, last: int, rate_first: float, rate_last: float, seed: int) -> Counts:
        if first >= last:
            return Counts(0.0, 0, 0)
        form = self.config.model == "cbow", self.config.faithful, self.config.window
        loss, terms, words = train_exactly(
            ids, ends, first, last, rate_first, rate_last, np.uint64(seed), *form, *self.matrices, self.keep_V
        )
        return Counts(loss, int(terms), int(words))
