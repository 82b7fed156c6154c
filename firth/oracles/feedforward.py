"""The feed-forward network of a Transformer block, one token at a time, float64, no torch.

Letters: T tokens, d width, h hidden width.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from firth.oracles.attention import times

Array = npt.NDArray[np.float64]


def feed_forward(x_Td: Array, W_1_dh: Array, b_1_h: Array, W_2_hd: Array, b_2_d: Array) -> Array:
    """y = max(0, x W_1 + b_1) W_2 + b_2   (Vaswani et al. 2017, eq. 2)."""
    hidden_Th = [[max(0.0, float(one)) for one in times(x_d, W_1_dh) + b_1_h] for x_d in x_Td]
    return np.array([times(np.array(hidden_h), W_2_hd) + b_2_d for hidden_h in hidden_Th])
