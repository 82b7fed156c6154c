"""Positions, one number at a time, float64, no torch. Letters: d model width, D head width."""

from __future__ import annotations

import math

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
