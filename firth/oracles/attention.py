"""Attention as its definition says it: a loop over queries, a loop over keys, float64, no torch.

    s_bhqk = scale · q_bhq · k_bgk                        g = h // (H // G)
    p_bhqk = softmax over { k : allowed(b, h, q, k) }     all zero where that set is empty
    o_bhqe = Σ_k p_bhqk v_bgke

Letters: B batch, H query heads, G key/value heads, Q queries, K keys, D head width, E value width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Allowed = Callable[[int, int, int, int], bool]  # (b, h, q, k) → may this query attend to this key? Positions are absolute.


def everything(b: int, h: int, q: int, k: int) -> bool:
    return True


def weights(
    q_BHQD: Array, k_BGKD: Array, allowed: Allowed = everything, scale: float | None = None, q_start: int | Sequence[int] = 0
) -> Array:
    """p_BHQK. `q_start` is the absolute position of the first query: one for all rows, or one per row."""
    B, H, Q, D = q_BHQD.shape
    G, K = k_BGKD.shape[1:3]
    if scale is None:
        scale = 1.0 / math.sqrt(D)  # Vaswani et al. 2017, eq. 1
    p_BHQK = np.zeros((B, H, Q, K))
    for b in range(B):
        start = q_start if isinstance(q_start, int) else q_start[b]
        for h in range(H):
            g = h // (H // G)
            for q in range(Q):
                score = {}
                for k in range(K):
                    if allowed(b, h, start + q, k):
                        score[k] = scale * sum(float(q_BHQD[b, h, q, n]) * float(k_BGKD[b, g, k, n]) for n in range(D))
                for k, share in softmax(score).items():
                    p_BHQK[b, h, q, k] = share
    return p_BHQK


def attend(
    q_BHQD: Array,
    k_BGKD: Array,
    v_BGKE: Array,
    allowed: Allowed = everything,
    scale: float | None = None,
    q_start: int | Sequence[int] = 0,
) -> Array:
    """o_BHQE."""
    p_BHQK = weights(q_BHQD, k_BGKD, allowed, scale, q_start)
    B, H, Q, K = p_BHQK.shape
    G, E = v_BGKE.shape[1], v_BGKE.shape[3]
    o_BHQE = np.zeros((B, H, Q, E))
    for b in range(B):
        for h in range(H):
            for q in range(Q):
                for k in range(K):
                    for e in range(E):
                        o_BHQE[b, h, q, e] += p_BHQK[b, h, q, k] * v_BGKE[b, h // (H // G), k, e]
    return o_BHQE


def softmax(score: dict[int, float]) -> dict[int, float]:
    """exp(s_k) / Σ exp(s_k) over the keys that are there; nothing of nothing."""
    if not score:
        return {}
    top = max(score.values())  # exp(710) overflows float64; a common factor cancels
    power = {k: math.exp(s - top) for k, s in score.items()}
    total = sum(power.values())
    return {k: p / total for k, p in power.items()}
