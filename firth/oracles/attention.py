"""Attention as its definition says it: a loop over queries, a loop over keys, float64, no torch.

    s_bhqk = cap(scale · (a(q_bhq, k_bgk) + pair_h(q_bhq, k_bgk, k − q)) · shrink) + bias_h(k − q)      g = h // (H // G)
    p_bhqk = softmax over { k : allowed(b, h, q, k) }     all zero where that set is empty
    o_bhqe = Σ_k p_bhqk (v_bgke + relative_value(k − q)_e)

Letters: B batch, H query heads, G key/value heads, Q queries, K keys, D query width, C key width, A inner width of the additive
score, E value width, T time, d model width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from firth.oracles.position import ABSENT, Position

Array = npt.NDArray[np.float64]
Allowed = Callable[[int, int, int, int], bool]  # (b, h, q, k) → may this query attend to this key? Positions are absolute.


def everything(b: int, h: int, q: int, k: int) -> bool:
    return True


class ScoreFunction(NamedTuple):
    """a(q, k) in two steps, because a position acts between them: what is done to q and to k alone, then what compares them."""

    compare: Callable[[Array, Array, int], float]  # (query, key, h)
    query: Callable[[Array, int], Array] = lambda q_D, h: q_D
    key: Callable[[Array, int], Array] = lambda k_C, g: k_C
    scaled: bool = False  # by 1/√D, where no scale is given


def _dot(q_D: Array, k_D: Array, h: int) -> float:
    return sum(float(q_D[n]) * float(k_D[n]) for n in range(len(q_D)))


def _gaussian(q_D: Array, k_D: Array, h: int) -> float:
    return -0.5 * sum((float(q_D[n]) - float(k_D[n])) ** 2 for n in range(len(q_D)))


DOT = ScoreFunction(_dot)
SCALED_DOT = ScoreFunction(_dot, scaled=True)
GAUSSIAN = ScoreFunction(_gaussian)


def bilinear(M_HDC: Array) -> ScoreFunction:
    """qᵀ M k, with one M per head or one for all."""
    return ScoreFunction(_dot, query=lambda q_D, h: times(q_D, _of_head(M_HDC, h, 2)))


def additive(w_HA: Array, W_q_HDA: Array | None = None, W_k_GCA: Array | None = None) -> ScoreFunction:
    """w·tanh(W_qᵀ q + W_kᵀ k), each with one per head or one for all; q and k as they are where there is no W."""

    def compare(q_A: Array, k_A: Array, h: int) -> float:
        w_A = _of_head(w_HA, h, 1)
        return sum(float(w_A[n]) * math.tanh(float(q_A[n]) + float(k_A[n])) for n in range(len(q_A)))

    return ScoreFunction(
        compare,
        query=lambda q_D, h: q_D if W_q_HDA is None else times(q_D, _of_head(W_q_HDA, h, 2)),
        key=lambda k_C, g: k_C if W_k_GCA is None else times(k_C, _of_head(W_k_GCA, g, 2)),
    )


def cosine(log_tau_H: Array) -> ScoreFunction:
    """τ_h q̂·k̂, with one log τ per head or one for all; a zero vector stays zero."""

    def unit(x_D: Array) -> Array:
        length = math.sqrt(sum(float(x) ** 2 for x in x_D))
        return np.array([float(x) / length if length else 0.0 for x in x_D])

    return ScoreFunction(
        _dot, query=lambda q_D, h: math.exp(float(_of_head(log_tau_H, h, 0))) * unit(q_D), key=lambda k_C, g: unit(k_C)
    )


def scores(
    q_BHQD: Array,
    k_BGKC: Array,
    scale: float | None = None,
    q_start: int | Sequence[int] = 0,
    score: ScoreFunction = SCALED_DOT,
    position: Position = ABSENT,
    cap: float | None = None,
) -> Array:
    """s_BHQK of all pairs, allowed or not. `q_start` is the absolute position of the first query: one for all rows, or one per
    row."""
    B, H, Q, D = q_BHQD.shape
    G, K = k_BGKC.shape[1:3]
    if scale is None:
        scale = 1.0 / math.sqrt(D) if score.scaled else 1.0  # Vaswani et al. 2017, eq. 1
    s_BHQK = np.zeros((B, H, Q, K))
    for b in range(B):
        keys_GK = [[position.turn(score.key(k_BGKC[b, g, k], g), k) for k in range(K)] for g in range(G)]
        for h in range(H):
            for q in range(Q):
                t = _start(q_start, b) + q
                query = position.turn(score.query(q_BHQD[b, h, q], h), t)
                for k in range(K):
                    key = keys_GK[h // (H // G)][k] + position.key(k - t)
                    compared = score.compare(query, key, h) + position.pair(query, key, h, k - t)
                    s_BHQK[b, h, q, k] = _capped(scale * position.shrink * compared, cap) + position.bias(h, k - t)
    return s_BHQK


def _capped(s: float, cap: float | None) -> float:
    return s if cap is None else cap * math.tanh(s / cap)


def normalized(s_BHQK: Array, allowed: Allowed = everything, q_start: int | Sequence[int] = 0) -> Array:
    """p_BHQK: each row's softmax over the allowed keys."""
    B, H, Q, K = s_BHQK.shape
    p_BHQK = np.zeros((B, H, Q, K))
    for b in range(B):
        for h in range(H):
            for q in range(Q):
                t = _start(q_start, b) + q
                seen = {k: float(s_BHQK[b, h, q, k]) for k in range(K) if allowed(b, h, t, k)}
                for k, share in softmax(seen).items():
                    p_BHQK[b, h, q, k] = share
    return p_BHQK


def averaged(p_BHQK: Array, v_BGKE: Array, q_start: int | Sequence[int] = 0, position: Position = ABSENT) -> Array:
    """o_BHQE: the values, weighted."""
    B, H, Q, K = p_BHQK.shape
    G, E = v_BGKE.shape[1], v_BGKE.shape[3]
    o_BHQE = np.zeros((B, H, Q, E))
    for b in range(B):
        for h in range(H):
            for q in range(Q):
                for k in range(K):
                    value_E = v_BGKE[b, h // (H // G), k] + position.value(k - _start(q_start, b) - q)
                    o_BHQE[b, h, q] += p_BHQK[b, h, q, k] * value_E
    return o_BHQE


def weights(
    q_BHQD: Array,
    k_BGKC: Array,
    allowed: Allowed = everything,
    scale: float | None = None,
    q_start: int | Sequence[int] = 0,
    score: ScoreFunction = SCALED_DOT,
    position: Position = ABSENT,
    cap: float | None = None,
) -> Array:
    """p_BHQK."""
    return normalized(scores(q_BHQD, k_BGKC, scale, q_start, score, position, cap), allowed, q_start)


def attend(
    q_BHQD: Array,
    k_BGKC: Array,
    v_BGKE: Array,
    allowed: Allowed = everything,
    scale: float | None = None,
    q_start: int | Sequence[int] = 0,
    score: ScoreFunction = SCALED_DOT,
    position: Position = ABSENT,
    cap: float | None = None,
) -> Array:
    """o_BHQE."""
    return averaged(weights(q_BHQD, k_BGKC, allowed, scale, q_start, score, position, cap), v_BGKE, q_start, position)


def softmax(score: dict[int, float]) -> dict[int, float]:
    """exp(s_k) / Σ exp(s_k) over the keys that are there; nothing of nothing."""
    if not score:
        return {}
    top = max(score.values())  # exp(710) overflows float64; a common factor cancels
    power = {k: math.exp(s - top) for k, s in score.items()}
    total = sum(power.values())
    return {k: p / total for k, p in power.items()}


# The three parametrisations of self-attention. `allowed` is asked as above; there the head is always 0, except in `projected`.


def plain(x_BTd: Array, allowed: Allowed = everything) -> Array:
    """y_i = Σ_j α_ij x_j, α_ij ∝ exp(x_i·x_j / √d)."""
    x_B1Td = x_BTd[:, None]
    return attend(x_B1Td, x_B1Td, x_B1Td, allowed)[:, 0]


def projected(x_BTd: Array, W_Q: Array, W_K: Array, W_V: Array, W_O: Array, heads: int, allowed: Allowed = everything) -> Array:
    """Concat(head_1 … head_H) W^O, head_h = attend(x W^Q_h, x W^K_g, x W^V_g): the columns of the matrices, D at a time."""
    B, T, _ = x_BTd.shape
    D = W_Q.shape[1] // heads
    y_BTd = np.zeros((B, T, W_O.shape[1]))
    for b in range(B):
        for h in range(heads):
            g = h // (heads // (W_K.shape[1] // D))
            q_TD = [times(x_BTd[b, t], W_Q[:, h * D : (h + 1) * D]) for t in range(T)]
            k_TD = [times(x_BTd[b, t], W_K[:, g * D : (g + 1) * D]) for t in range(T)]
            v_TD = [times(x_BTd[b, t], W_V[:, g * D : (g + 1) * D]) for t in range(T)]
            for i in range(T):
                share = softmax({j: _dot(q_TD[i], k_TD[j], h) / math.sqrt(D) for j in range(T) if allowed(b, h, i, j)})
                for j in share:
                    y_BTd[b, i] += share[j] * times(v_TD[j], W_O[h * D : (h + 1) * D])
    return y_BTd


def residual(v_BTd: Array, P_dd: Array, Q_dd: Array, allowed: Allowed = everything) -> Array:
    """v_i⁺ = v_i + P Σ_j α_ij v_j, α_ij ∝ exp(v_jᵀ Q v_i)."""
    B, T, d = v_BTd.shape
    y_BTd = np.array(v_BTd)
    for b in range(B):
        for i in range(T):
            share = softmax({j: _dot(times(v_BTd[b, j], Q_dd), v_BTd[b, i], 0) for j in range(T) if allowed(b, 0, i, j)})
            for j in share:
                for n in range(d):
                    y_BTd[b, i, n] += share[j] * _dot(P_dd[n], v_BTd[b, j], 0)
    return y_BTd


def times(x_n: Array, W_nm: Array) -> Array:
    """x W, one product at a time."""
    n, m = W_nm.shape
    return np.array([sum(float(x_n[i]) * float(W_nm[i, j]) for i in range(n)) for j in range(m)])


def _of_head(x: Array, h: int, axes: int) -> Array:
    """The head's own, where there is one per head; it then has an axis more."""
    of_head: Array = x[h] if x.ndim > axes else x
    return of_head


def _start(q_start: int | Sequence[int], b: int) -> int:
    return q_start if isinstance(q_start, int) else q_start[b]
