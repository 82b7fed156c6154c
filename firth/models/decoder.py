"""The base of every model that generates token by token: hidden states, an output layer over them, and `step`.

Letters: B batch, T time, V vocabulary, d input width of the output layer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from firth.layers.cap import capped
from firth.layers.kernels.triton import one_row
from firth.layers.quantised import Int8Linear
from firth.models.config import TransformerSettings
from firth.models.network import Network


class Decoder(Network, ABC):
    vocab: int
    logit_cap: float | None = None  # bound of the logits, c tanh(logit / c)
    output: nn.Linear | None  # None if the embedding's matrix is that of the output layer, too
    output_bias: nn.Parameter | None  # the bias in that case

    @abstractmethod
    def hidden(self, token_BT: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """The input of the output layer, and the state after the last token."""

    def output_layer(self) -> tuple[Tensor, Tensor | None]:
        """W_Vd and b_V of the output layer; b is None if there is none."""
        return (self.embedding.weight, self.output_bias) if self.output is None else (self.output.weight, self.output.bias)

    def readout(self, x_BTd: Tensor) -> Tensor:
        """The output layer: logits_BTV = x Wᵀ + b, capped if there is a cap."""
        layer = self._modules.get("quantised_output")  # only a quantised model has it (quantisation.py)
        logits_BTV = one_row.linear(x_BTd, *self.output_layer()) if layer is None else layer(x_BTd)
        return capped(logits_BTV, self.logit_cap)

    def quantise_output(self) -> None:
        """Quantise the output layer to int8. A tied embedding is not changed."""
        layer = Int8Linear(*self.output_layer())
        if self.output is not None:
            setattr(self, "output", layer)  # noqa: B010 (mypy expects a Linear)
        self.quantised_output = layer

    def step(self, token_BT: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The interface of decoding: the logits after each of the T new tokens, and the state after them."""
        x_BTd, state = self.hidden(token_BT, state)
        return self.readout(x_BTd), state


def vocabulary_output(config: TransformerSettings, vocab: int) -> tuple[nn.Linear | None, nn.Parameter | None]:
    """The output layer of a Transformer, or None if it is the embedding's matrix, and then that one's bias, if it has one."""
    if not config.tied:
        return nn.Linear(config.width, vocab, bias=config.biased_output), None
    return None, nn.Parameter(torch.zeros(vocab)) if config.biased_output else None
