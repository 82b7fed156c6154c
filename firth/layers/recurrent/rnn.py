"""Elman's recurrent network (1990)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from firth.layers.recurrent.cell import State, Trace, Weights
from firth.layers.recurrent.torch_cell import TorchCell


class RNN(TorchCell, nn.RNN):
    """h' = tanh(W x + U h + b)."""

    kind = "rnn"
    label = "RNN"
    about = "The simple recurrent network (Elman 1990)."
    latex = r"h_t = \tanh(W x_t + U h_{t-1} + b)"
    gates = ("h",)
    kernel = staticmethod(torch.rnn_tanh)

    def step(self, x_Bg: Tensor, state: State, w: Weights) -> Trace:
        (h_Bd,) = state
        return {"h": torch.tanh(x_Bg + w.of_hidden(h_Bd))}
