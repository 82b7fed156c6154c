"""The mean of the weights over the last part of training, which is often better than any one of them (Polyak & Juditsky 1992).

    a ← a + (1 − β_t) (w − a),   β_t = min(β, (1 + t) / (10 + t))

The second form of β_t forgets the first, far-off weights. Training goes on with w; a is what is validated, saved and used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn


class Average:
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: weight.detach().clone() for name, weight in model.named_parameters()}
        self._of = list(model.parameters())

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after update number `step`."""
        share = 1.0 - min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.weights.values()), [weight.detach() for weight in self._of], share)

    @contextlib.contextmanager
    def in_place_of(self, model: nn.Module) -> Iterator[None]:
        """Within, the model has the averaged weights."""
        self._swap(model)
        try:
            yield
        finally:
            self._swap(model)

    def _swap(self, model: nn.Module) -> None:
        for name, weight in model.named_parameters():
            weight.data, self.weights[name] = self.weights[name], weight.data

    def load(self, weights: dict[str, Tensor]) -> None:
        for name, weight in self.weights.items():
            weight.copy_(weights[name])
