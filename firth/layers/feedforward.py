"""The position-wise network of a block. Letters: B batch, T time, d width, h hidden width."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from firth.layers.direct import Direct, Linear

Activation = Literal["relu", "gelu", "swiglu"]


class FeedForward(Direct):
    """W_2 φ(W_1 x), φ = ReLU (Vaswani et al. 2017, eq. 2) or GELU; or W_2 (silu(W_g x) ⊙ W_1 x), SwiGLU (Shazeer 2020)."""

    def __init__(self, width: int, hidden: int, activation: Activation, bias: bool) -> None:
        super().__init__()
        self.activation = activation
        # SwiGLU's gate and value come out of one product: rows 0…h−1 are W_g, rows h…2h−1 are W_1.
        self.up = Linear(width, 2 * hidden if activation == "swiglu" else hidden, bias=bias)
        self.down = Linear(hidden, width, bias=bias)

    def forward(self, x_BTd: Tensor) -> Tensor:
        up_BTh = self.up(x_BTd)
        match self.activation:
            case "relu":
                inner_BTh = F.relu(up_BTh)
            case "gelu":
                inner_BTh = F.gelu(up_BTh)
            case "swiglu":
                gate_BTh, value_BTh = up_BTh.chunk(2, dim=-1)
                inner_BTh = F.silu(gate_BTh) * value_BTh
        down_BTd: Tensor = self.down(inner_BTh)
        return down_BTd


def default_hidden(width: int, activation: Activation) -> int:
    """4d as published; SwiGLU has three matrices where the others have two, so ⅔ of that, rounded up to a multiple of 16."""
    return 4 * width if activation != "swiglu" else -(-8 * width // 3 // 16) * 16
