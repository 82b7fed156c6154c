"""Byte-pair merges, beam search and BLEU as their definitions say them: lists, loops, float64, no torch.

Letters: V vocabulary.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def bpe_merge(tokens: Sequence[str], left: str, right: str) -> list[str]:
    """Every pair (left, right) becomes one token, from left to right; a token is part of one pair at most."""
    merged: list[str] = []
    free = False  # the last token may still be the left part of a pair
    for token in tokens:
        if free and merged[-1] == left and token == right:
            merged[-1] = left + right
            free = False
        else:
            merged.append(token)
            free = True
    return merged


def beam_search(log_p_VV: Array, start: int, end: int, beam: int, longest: int, alpha: float) -> list[int]:
    """The tokens with the highest Σ_t log p[y_{t−1}, y_t] / n^α among those that the beam finished, and those it still holds."""
    live: list[tuple[int, ...]] = [(start,)]
    finished: list[tuple[int, ...]] = []
    for _ in range(longest):
        extended = sorted(((*tokens, v) for tokens in live for v in range(len(log_p_VV))), key=lambda one: -_sum(log_p_VV, one))
        live = [one for one in extended[:beam] if one[-1] != end]
        finished += [one for one in extended[:beam] if one[-1] == end]
    best = max([*finished, *live], key=lambda one: _sum(log_p_VV, one) / (len(one) - 1) ** alpha)
    return list(best[1:])


def _sum(log_p_VV: Array, tokens: Sequence[int]) -> float:
    return math.fsum(float(log_p_VV[one, other]) for one, other in itertools.pairwise(tokens))


def ngrams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[place : place + n]) for place in range(len(tokens) - n + 1))


def bleu(candidate: Sequence[str], reference: Sequence[str]) -> float:
    """min(1, exp(1 − r/c)) · (p_1 p_2 p_3 p_4)^¼ with clipped counts, without smoothing   (Papineni et al. 2002)."""
    product = 1.0
    for n in range(1, 5):
        found, known = ngrams(candidate, n), ngrams(reference, n)
        total = sum(found.values())
        product *= sum(min(count, known[gram]) for gram, count in found.items()) / total if total else 0.0
    brevity = min(1.0, math.exp(1 - len(reference) / len(candidate)))
    return float(brevity * product**0.25)
