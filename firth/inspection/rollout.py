"""Attention rollout (Abnar & Zuidema 2020): how much each input token contributes to a position if only attention mixes tokens.

    Ā_l = ½ (A_l + I), rows normalised to sum to 1        R_l = Ā_l R_{l−1},  R_0 = I

A_l is the mean over a layer's heads; I stands for the residual connection. Each row of R_l sums to 1. If attention is causal, so
is R_l, because a product of lower triangular matrices is lower triangular. Letters: L layers, T tokens.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from firth.errors import DataError


def rollout(layers: Iterable[npt.ArrayLike]) -> npt.NDArray[np.float64]:
    """R_LTT from A_TT of each layer, first layer first. An all-zero row of A passes the layer unchanged."""
    products: list[npt.NDArray[np.float64]] = []
    for given in layers:
        A_TT = np.asarray(given, np.float64)
        if A_TT.ndim != 2 or A_TT.shape[0] != A_TT.shape[1]:
            raise DataError(f"attention has shape {A_TT.shape}; rollout needs the square matrices of self-attention")
        mixed_TT = 0.5 * (A_TT + np.eye(len(A_TT)))
        mixed_TT /= mixed_TT.sum(-1, keepdims=True)
        products.append(mixed_TT @ products[-1] if products else mixed_TT)
    if not products:
        raise DataError("rollout needs the attention of at least one layer; got none")
    return np.stack(products)
