"""Positions, one number at a time, float64, no torch.

Letters: d model width, D key width, E value width, H heads, N buckets, R = 2c + 1 clipped distances.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def frequency(i: int, width: int, base: float = 10_000.0) -> float:
    """ω_i = base^(−2i/width)."""
    return float(base ** (-2 * i / width))


def sinusoid(t: int, width: int, base: float = 10_000.0) -> Array:
    """p_t = (sin ω_0 t, cos ω_0 t, sin ω_1 t, cos ω_1 t, …), interleaved (Vaswani et al. 2017, §3.5)."""
    p_d = np.zeros(width)
    for i in range(width // 2):
        p_d[2 * i] = math.sin(t * frequency(i, width, base))
        p_d[2 * i + 1] = math.cos(t * frequency(i, width, base))
    return p_d


def shift(delta: int, width: int, base: float = 10_000.0) -> Array:
    """The matrix R_δ with R_δ p_t = p_{t+δ} for every t: a turn of each (sin, cos) pair by δ ω_i."""
    R_dd = np.zeros((width, width))
    for i in range(width // 2):
        angle = delta * frequency(i, width, base)
        R_dd[2 * i, 2 * i] = R_dd[2 * i + 1, 2 * i + 1] = math.cos(angle)
        R_dd[2 * i, 2 * i + 1] = math.sin(angle)
        R_dd[2 * i + 1, 2 * i] = -math.sin(angle)
    return R_dd


def rotate(x_D: Array, t: int, base: float = 10_000.0) -> Array:
    """Each pair (x_i, x_{i+D/2}) turned by +t ω_i (Su et al. 2021); pairs are halves, not neighbours."""
    half = len(x_D) // 2
    turned_D = np.zeros(len(x_D))
    for i in range(half):
        angle = t * frequency(i, len(x_D), base)
        turned_D[i] = x_D[i] * math.cos(angle) - x_D[i + half] * math.sin(angle)
        turned_D[i + half] = x_D[i + half] * math.cos(angle) + x_D[i] * math.sin(angle)
    return turned_D


class Position(NamedTuple):
    """The effect of a position scheme inside attention. The distance is k − q."""

    turn: Callable[[Array, int], Array] = lambda x_D, t: x_D  # applied to q and k at their positions
    bias: Callable[[int, int], float] = lambda h, distance: 0.0  # added to the score of head h
    key: Callable[[int], Array | float] = lambda distance: 0.0  # added to the key
    value: Callable[[int], Array | float] = lambda distance: 0.0  # added to the value
    pair: Callable[[Array, Array, int, int], float] = lambda q, k, h, distance: 0.0  # added to a(q, k) of head h, before scaling
    shrink: float = 1.0  # of the sum of both


ABSENT = Position()


def rotary(base: float = 10_000.0) -> Position:
    return Position(turn=lambda x_D, t: rotate(x_D, t, base))


def alibi(slope_H: Array) -> Position:
    """− m_h |k − q| (Press et al. 2022)."""
    return Position(bias=lambda h, distance: -float(slope_H[h]) * abs(distance))


def buckets(table_NH: Array, bidirectional: bool, max_distance: int) -> Position:
    """b_{bucket(k − q), h} (Raffel et al. 2020, §2.1)."""
    return Position(bias=lambda h, distance: float(table_NH[bucket(distance, len(table_NH), bidirectional, max_distance), h]))


def shaw(key_RD: Array | None, value_RE: Array | None) -> Position:
    """k + a^K_r and v + a^V_r, r the clipped distance (Shaw et al. 2018, eq. 3–4)."""

    def row(table: Array | None, distance: int) -> Array | float:
        if table is None:
            return 0.0
        farthest = len(table) // 2
        table_row: Array = table[farthest + max(-farthest, min(farthest, distance))]
        return table_row

    return Position(key=lambda distance: row(key_RD, distance), value=lambda distance: row(value_RE, distance))


def disentangled(key_HRD: Array | None, query_HRD: Array | None, max_distance: int | None = None) -> Position:
    """(a(q, k) + q·a^K_r + k·a^Q_r) / √3, r the clipped q − k, or its bucket (He et al. 2021, eq. 4, as their code has it)."""

    def row(table_RD: Array, distance: int) -> Array:
        span = len(table_RD) // 2
        if max_distance is not None:
            sign = -1 if distance < 0 else 1
            distance = sign * log_bucket(abs(distance), span, max_distance)
        table_row: Array = table_RD[max(0, min(2 * span - 1, distance + span))]
        return table_row

    def pair(q_D: Array, k_D: Array, h: int, distance: int) -> float:
        total = 0.0
        for table, x_D in ((key_HRD, q_D), (query_HRD, k_D)):
            if table is not None:
                total += sum(float(x) * float(a) for x, a in zip(x_D, row(table[h], -distance), strict=True))
        return total

    terms = 1 + (key_HRD is not None) + (query_HRD is not None)
    return Position(pair=pair, shrink=1 / math.sqrt(terms))


def log_bucket(away: int, count: int, max_distance: int) -> int:
    """DeBERTa-v2's bucket of a distance ≥ 0: itself up to m = ⌊count/2⌋, then m + j for the smallest j with
    δ ≤ m ((max_distance − 1)/m)^(j/(m − 1)).

    The comparison is in integers, both sides raised to the power m − 1, so that no logarithm is rounded."""
    middle = count // 2
    if away <= middle:
        return away
    wide, j = middle - 1, 0
    while away**wide * middle**j > (max_distance - 1) ** j * middle**wide:
        j += 1
    return middle + j


def slopes(heads: int) -> list[float]:
    """ALiBi's slopes: 2^(−8/H), its square, its cube, …; if H is not a power of two, the slopes of the power below and then every
    other slope of the power above."""
    power = 1
    while 2 * power <= heads:
        power *= 2
    slopes_H = [2 ** (-8 * n / power) for n in range(1, power + 1)]
    return slopes_H if power == heads else slopes_H + slopes(2 * power)[::2][: heads - power]


def bucket(distance: int, count: int, bidirectional: bool, max_distance: int) -> int:
    """T5's bucket: half of the buckets hold one distance each; the others begin at exact·(max_distance/exact)^(j/wide), j ≥ 0.

    The comparison is in integers, both sides raised to the power `wide`, so that no logarithm is rounded."""
    if bidirectional:
        count = count // 2
        if distance > 0:
            return count + bucket(-distance, count, False, max_distance)
    away = max(0, -distance)
    exact = count // 2
    if away < exact:
        return away
    wide, j = count - exact, 0
    while j + 1 < wide and away**wide * exact ** (j + 1) >= max_distance ** (j + 1) * exact**wide:
        j += 1
    return exact + j
