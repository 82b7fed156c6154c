"""Linear attention as its definition says it: a loop over tokens, float64, no torch.

    S_t = diag(g_t) S_{t−1} + φ(k_t) v_tᵀ      z_t = diag(g_t) z_{t−1} + φ(k_t)      o_t = φ(q_t)ᵀS_t / φ(q_t)ᵀz_t, or φ(q_t)ᵀS_t

Letters: B batch, H heads, T time, D width of q and k, F width of φ, E value width.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Features = Callable[[Array], list[float]]


def identity(x_D: Array) -> list[float]:
    return [float(x) for x in x_D]


def elu_plus_one(x_D: Array) -> list[float]:
    return [float(x) + 1 if x > 0 else math.exp(x) for x in x_D]


def taylor(x_D: Array) -> list[float]:
    """[1, x / D^¼, x ⊗ x / √(2D)]."""
    D = len(x_D)
    pairs = [float(x_D[i]) * float(x_D[j]) / math.sqrt(2 * D) for i in range(D) for j in range(D)]
    return [1.0, *(float(x) / D**0.25 for x in x_D), *pairs]


def attend(
    q_BHTD: Array,
    k_BHTD: Array,
    v_BHTE: Array,
    features: Features = elu_plus_one,
    gate_BHTF: Array | None = None,
    normalized: bool = True,
) -> Array:
    """o_BHTE."""
    B, H, T, E = v_BHTE.shape
    o_BHTE = np.zeros((B, H, T, E))
    for b in range(B):
        for h in range(H):
            F = len(features(k_BHTD[b, h, 0]))
            S, z = [[0.0] * E for _ in range(F)], [0.0] * F
            for t in range(T):
                q_F, k_F = features(q_BHTD[b, h, t]), features(k_BHTD[b, h, t])
                for f in range(F):
                    g = 1.0 if gate_BHTF is None else float(gate_BHTF[b, h, t, f])
                    z[f] = g * z[f] + k_F[f]
                    S[f] = [g * S[f][e] + k_F[f] * float(v_BHTE[b, h, t, e]) for e in range(E)]
                total = sum(q_F[f] * z[f] for f in range(F)) if normalized else 1.0
                for e in range(E):
                    o_BHTE[b, h, t, e] = sum(q_F[f] * S[f][e] for f in range(F)) / total
    return o_BHTE
