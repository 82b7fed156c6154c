"""The LSTM (Hochreiter & Schmidhuber 1997), with the forget gate of Gers et al. (2000)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from firth.layers.recurrent.cell import USUAL, Quantity, State, Trace, Weights
from firth.layers.recurrent.torch_cell import TorchCell


class LSTM(TorchCell, nn.LSTM):
    """i, f, o = σ(W x + U h + b), g = tanh(W x + U h + b), c' = f⊙c + i⊙g, h' = o⊙tanh(c')."""

    kind = "lstm"
    label = "LSTM"
    about = "Gates and a cell state, which carry gradients far (Hochreiter & Schmidhuber 1997, Gers et al. 2000)."
    latex = r"c_t = f \odot c_{t-1} + i \odot g, \quad h_t = o \odot \tanh(c_t)"
    gates = ("input", "forget", "candidate", "output")
    state = ("h", "c")
    quantities: ClassVar[Mapping[str, Quantity]] = {"candidate": USUAL["candidate"]._replace(letter="g")}
    kernel = staticmethod(torch.lstm)

    def step(self, x_Bg: Tensor, state: State, w: Weights) -> Trace:
        h_Bd, c_Bd = state
        i, f, g, o = (x_Bg + w.of_hidden(h_Bd)).chunk(4, dim=-1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        c_next_Bd = f * c_Bd + i * g
        return {"h": o * c_next_Bd.tanh(), "c": c_next_Bd, "input": i, "forget": f, "candidate": g, "output": o}

    def draw(self, name: str, parameter: Tensor, generator: torch.Generator, embedding_std: float = 0.0) -> None:
        """A forget gate that starts open lets the gradient through: its bias is 1 (Jozefowicz et al. 2015), the others are 0."""
        super().draw(name, parameter, generator)
        if name.startswith("bias"):
            parameter.zero_()
            if "ih" in name:
                parameter[self.width : 2 * self.width] = 1.0
