"""The base of every model that generates token by token: hidden states, an output layer over them, and `step`.

Letters: B batch, T time, V vocabulary, d input width of the output layer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from firth.layers import few_rows
from firth.layers.cap import capped
from firth.layers.transposed_product import linear
from firth.models.config import TransformerSettings
from firth.models.network import Network


class Decoder(Network, ABC):
    vocab: int
    logit_cap: float | None = None  # bound of the logits, c tanh(logit / c)

    @abstractmethod
    def hidden(self, token_BT: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """The input of the output layer, and the state after the last token."""

    @abstractmethod
    def output_layer(self) -> tuple[Tensor, Tensor | None]:
        """W_Vd and b_V of the output layer; b is None if there is none."""

    def readout(self, x_BTd: Tensor) -> Tensor:
        """The output layer: logits_BTV = x Wᵀ + b, capped if there is a cap."""
        W_Vd, b_V = self.output_layer()
        if few_rows.few(x_BTd) and W_Vd.dtype == x_BTd.dtype:
            from firth.layers.few_rows_kernel import product

            return capped(product(x_BTd, W_Vd, b_V), self.logit_cap)
        return capped(linear(x_BTd, W_Vd, b_V), self.logit_cap)

    def step(self, token_BT: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The interface of decoding: the logits after each of the T new tokens, and the state after them."""
        x_BTd, state = self.hidden(token_BT, state)
        return self.readout(x_BTd), state


def vocabulary_output(config: TransformerSettings, vocab: int) -> tuple[nn.Linear | None, nn.Parameter | None]:
    """The output layer of a Transformer, or None if it is the embedding's matrix, and then that one's bias, if it has one."""
    if not config.tied:
        return nn.Linear(config.width, vocab, bias=config.biased_output), None
    return None, nn.Parameter(torch.zeros(vocab)) if config.biased_output else None
