"""The matrices of a recurrent layer in int8 or int4. Letters as in cell.py."""

from __future__ import annotations

from torch import Tensor, nn

from firth.layers.quantised import Quantisation, QuantisedLinear, quantised_matrix
from firth.layers.recurrent.cell import Weights


class QuantisedWeights(nn.Module):
    """`Weights` of one direction that multiply without being dequantised."""

    def __init__(self, weights: Weights, kind: Quantisation) -> None:
        super().__init__()
        self.input: QuantisedLinear = quantised_matrix(weights.input_gi, weights.input_bias_g, kind)
        self.hidden: QuantisedLinear | None = None
        if len(weights.hidden_gd):
            self.hidden = quantised_matrix(weights.hidden_gd, weights.hidden_bias_g, kind)

    def of_input(self, x_BTi: Tensor) -> Tensor:
        x_BTg: Tensor = self.input(x_BTi)
        return x_BTg

    def of_hidden(self, h_Bd: Tensor) -> Tensor:
        assert self.hidden is not None  # a cell without U does not ask for U h
        h_Bg: Tensor = self.hidden(h_Bd)
        return h_Bg
