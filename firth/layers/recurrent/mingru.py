"""minGRU (Feng et al. 2024, "Were RNNs All We Needed?"): a GRU whose gates do not depend on the state.

    z_t = σ(W_z x_t + b_z)      h̃_t = g(W_h x_t + b_h)      h_t = (1 − z_t)⊙h_{t−1} + z_t⊙h̃_t
    g(x) = x + 0.5 for x ≥ 0, σ(x) for x < 0

Letters: B batch, T time, d width, g gates × width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from firth.layers.recurrent.cell import USUAL, Quantity, State, Trace, Weights
from firth.layers.recurrent.scan_cell import ScanCell, positive


class MinGRU(ScanCell):
    """W stacks z and h̃."""

    kind = "mingru"
    label = "minGRU"
    about = "A GRU whose gates do not depend on the state, so that training is parallel (Feng et al. 2024)."
    latex = r"h_t = (1 - z_t) \odot h_{t-1} + z_t \odot \tilde h_t"
    gates = ("update", "candidate")
    quantities: ClassVar[Mapping[str, Quantity]] = {"candidate": USUAL["candidate"]._replace(letter="h̃")}

    def step(self, x_Bg: Tensor, state: State, w: Weights) -> Trace:
        (h_Bd,) = state
        z, candidate = _gates(x_Bg)
        return {"h": (1 - z) * h_Bd + z * candidate, "update": z, "candidate": candidate}

    def recurrence(self, x_BTg: Tensor) -> tuple[Tensor, Tensor]:
        z, candidate = _gates(x_BTg)
        return 1 - z, z * candidate


def _gates(x_g: Tensor) -> tuple[Tensor, Tensor]:
    x_z, x_h = x_g.chunk(2, dim=-1)
    return x_z.sigmoid(), positive(x_h)
