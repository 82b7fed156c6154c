"""What every model that writes token by token has in common: hidden states, an output layer over them, and `step`.

Letters: B batch, T time, V vocabulary, d width of what the output layer reads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from firth.models.network import Network


class Decoder(Network, ABC):
    vocab: int

    @abstractmethod
    def hidden(self, token_BT: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """What the output layer reads, and the state after the last token."""

    @abstractmethod
    def output_layer(self) -> tuple[Tensor, Tensor | None]:
        """W_Vd and b_V of the output layer; no b: None."""

    def readout(self, x_BTd: Tensor) -> Tensor:
        """The output layer: logits_BTV = x Wᵀ + b."""
        return F.linear(x_BTd, *self.output_layer())

    def step(self, token_BT: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The seam of decoding: the logits after each of the T new tokens, and the state that has read them."""
        x_BTd, state = self.hidden(token_BT, state)
        return self.readout(x_BTd), state
