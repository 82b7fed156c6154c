"""One idea of each sort that pictures show, with its mathematics and nothing else."""

from __future__ import annotations

import torch

from firth.layers.recurrent import Cell, State, Trace, Weights


class Leaky(Cell):
    kind, gates = "leaky", ("leak", "h")

    def step(self, x_Bg: torch.Tensor, state: State, w: Weights) -> Trace:
        (h_Bd,) = state
        leak_Bd, new_Bd = (x_Bg + w.of_hidden(h_Bd)).chunk(2, -1)
        leak_Bd = torch.sigmoid(leak_Bd)
        return {"h": h_Bd + leak_Bd * (torch.tanh(new_Bd) - h_Bd), "leak": leak_Bd}
