"""A linear-chain CRF by brute force: enumerate every sequence of tags. One sentence, float64, no torch.

    s(y) = start[y_1] + Σ_w e_w[y_w] + Σ_w A[y_{w−1}, y_w] + end[y_n]        p(y) = exp(s(y)) / Σ_y' exp(s(y'))

Letters: W words, C tags.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class CrfResult(NamedTuple):
    log_partition: float
    marginal_WC: Array
    best: tuple[int, ...]  # the most probable sequence
    best_score: float


def score(emission_WC: Array, start_C: Array, transition_CC: Array, end_C: Array, tags: tuple[int, ...]) -> float:
    total = float(start_C[tags[0]] + end_C[tags[-1]])
    total += sum(float(emission_WC[w, tag]) for w, tag in enumerate(tags))
    return total + sum(float(transition_CC[one, other]) for one, other in itertools.pairwise(tags))


def crf(emission_WC: Array, start_C: Array, transition_CC: Array, end_C: Array) -> CrfResult:
    W, C = emission_WC.shape
    scores = {tags: score(emission_WC, start_C, transition_CC, end_C, tags) for tags in itertools.product(range(C), repeat=W)}
    best = max(scores, key=lambda tags: scores[tags])
    weights = {tags: math.exp(value - scores[best]) for tags, value in scores.items()}
    total = math.fsum(weights.values())
    marginal_WC = np.zeros((W, C))
    for tags, weight in weights.items():
        for w, tag in enumerate(tags):
            marginal_WC[w, tag] += weight / total
    return CrfResult(scores[best] + math.log(total), marginal_WC, best, scores[best])
