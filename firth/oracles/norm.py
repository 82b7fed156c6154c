"""Norms as a student would first write them: one token and one feature at a time, float64, no torch.

Letters: T tokens, d width.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def layer_norm(x_Td: Array, gain_d: Array, bias_d: Array, epsilon: float) -> Array:
    """y = gain ⊙ (x − μ) / √(σ² + ε) + bias, with the biased variance   (Ba et al. 2016)."""
    y_Td = np.zeros_like(x_Td)
    for t, x_d in enumerate(x_Td):
        d = len(x_d)
        mean = math.fsum(map(float, x_d)) / d
        variance = math.fsum((float(x) - mean) ** 2 for x in x_d) / d
        for j in range(d):
            y_Td[t, j] = gain_d[j] * (x_d[j] - mean) / math.sqrt(variance + epsilon) + bias_d[j]
    return y_Td


def rms_norm(x_Td: Array, gain_d: Array, epsilon: float) -> Array:
    """y = gain ⊙ x / √(mean of x² + ε)   (Zhang and Sennrich 2019)."""
    y_Td = np.zeros_like(x_Td)
    for t, x_d in enumerate(x_Td):
        d = len(x_d)
        root = math.sqrt(math.fsum(float(x) ** 2 for x in x_d) / d + epsilon)
        for j in range(d):
            y_Td[t, j] = gain_d[j] * x_d[j] / root
    return y_Td
