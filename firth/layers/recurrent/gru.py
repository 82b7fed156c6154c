"""The GRU (Cho et al. 2014), in the published form and in torch's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.layers.recurrent.cell import Quantity, State, Trace, Weights
from firth.layers.recurrent.torch_cell import TorchCell


class GRU(TorchCell, nn.GRU):
    """r, z = σ(W x + U h + b), h' = (1 − z)⊙n + z⊙h, and two candidates, which are different functions:
    reset="after"   n = tanh(W x + b + r⊙(U h + b'))   torch's and cuDNN's
    reset="before"  n = tanh(W x + b + U(r⊙h) + b')    as published."""

    kind = "gru"
    label = "GRU"
    about = "Two gates, and no state besides h (Cho et al. 2014)."
    latex = r"h_t = (1 - z) \odot n + z \odot h_{t-1}"
    gates = ("reset", "update", "candidate")
    quantities: ClassVar[Mapping[str, Quantity]] = {"update": Quantity("z", "update gate: how much of the old state is kept")}
    has_reset = True
    kernel = staticmethod(torch.gru)

    def step(self, x_Bg: Tensor, state: State, w: Weights) -> Trace:
        (h_Bd,) = state
        x_r, x_z, x_n = x_Bg.chunk(3, dim=-1)
        match self.reset:
            case "after":
                h_r, h_z, h_n = w.of_hidden(h_Bd).chunk(3, dim=-1)
                r, z = (x_r + h_r).sigmoid(), (x_z + h_z).sigmoid()
                n = torch.tanh(x_n + r * h_n)
            case "before":
                U_r, U_z, U_n = w.hidden_gd.chunk(3)
                b_r, b_z, b_n = w.hidden_bias_g.chunk(3)
                r = (x_r + F.linear(h_Bd, U_r, b_r)).sigmoid()
                z = (x_z + F.linear(h_Bd, U_z, b_z)).sigmoid()
                n = torch.tanh(x_n + F.linear(r * h_Bd, U_n, b_n))
        return {"h": (1 - z) * n + z * h_Bd, "reset": r, "update": z, "candidate": n}

    def why_not_fused(self) -> str | None:
        return 'no fused kernel computes the GRU with reset="before"' if self.reset == "before" else super().why_not_fused()

    def why_not_quantised(self) -> str | None:
        return 'a GRU with reset="before" multiplies with parts of a matrix' if self.reset == "before" else None
