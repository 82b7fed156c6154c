"""Attention rollout (Abnar & Zuidema 2020): how much of each first token is in a position, if attention were all that mixes.

    Ā_l = ½ (A_l + I), rows made to sum to 1        R_l = Ā_l R_{l−1},  R_0 = I

A_l is the mean of a layer's heads; I is what the residual connection hands on. A row of R_l sums to 1, and where attention looks
back only, R_l does: a product of lower triangles is one. Letters: L layers, T tokens.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from firth.errors import DataError


def rollout(layers: Iterable[npt.ArrayLike]) -> npt.NDArray[np.float64]:
    """R_LTT from A_TT of each layer, the first layer first. A row of A without any weight hands on what was there."""
    found: list[npt.NDArray[np.float64]] = []
    for given in layers:
        A_TT = np.asarray(given, np.float64)
        if A_TT.ndim != 2 or A_TT.shape[0] != A_TT.shape[1]:
            raise DataError(f"attention of shape {A_TT.shape}; expected a square for each layer: rollout is of self-attention")
        mixed_TT = 0.5 * (A_TT + np.eye(len(A_TT)))
        mixed_TT /= mixed_TT.sum(-1, keepdims=True)
        found.append(mixed_TT @ found[-1] if found else mixed_TT)
    if not found:
        raise DataError("there are no layers to roll out; expected the attention of one or more")
    return np.stack(found)
