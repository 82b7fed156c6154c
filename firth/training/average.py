"""A running average of the weights, which often generalises better than the last weights (Polyak & Juditsky 1992).

    a ← a + (1 − β_t) (w − a),   β_t = min(β, (1 + t) / (10 + t))

Early on, (1 + t) / (10 + t) is the smaller term, so that the initial weights are soon forgotten. Training continues with w;
a is validated, saved and used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn


class WeightAverage:
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: weight.detach().clone() for name, weight in _trained(model)}
        self._parameters = [weight for _, weight in _trained(model)]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Add the weights after update number `step` to the average."""
        share = 1.0 - min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.weights.values()), [weight.detach() for weight in self._parameters], share)

    @contextlib.contextmanager
    def applied_to(self, model: nn.Module) -> Iterator[None]:
        """Within this context the model holds the averaged weights."""
        self._swap(model)
        try:
            yield
        finally:
            self._swap(model)

    def _swap(self, model: nn.Module) -> None:
        for name, weight in _trained(model):
            weight.data, self.weights[name] = self.weights[name], weight.data

    def load(self, weights: dict[str, Tensor]) -> None:
        for name, weight in self.weights.items():
            weight.copy_(weights[name])


def _trained(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """The average of a frozen weight is the weight."""
    return [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
