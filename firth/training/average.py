"""Averages of the weights, which often generalise better than the last weights (Polyak & Juditsky 1992). Training continues with
the weights w; their average a is validated, saved and used."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn


class Average(ABC):
    """What is validated and saved in place of the weights that are trained; a checkpoint holds `weights` and `facts`."""

    @property
    @abstractmethod
    def weights(self) -> Mapping[str, Tensor]:
        """By name; a weight that is not here is used as it is trained."""

    @abstractmethod
    def update(self, step: int) -> None:
        """Called after update number `step`."""

    def validated(self, loss: float) -> None:  # noqa: B027 (most kinds need not know)
        """Called after each validation, with its loss."""

    def facts(self) -> dict[str, Any]:
        """The state besides `weights`, as JSON."""
        return {}

    @abstractmethod
    def load(self, weights: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Continue from what a checkpoint holds."""

    @contextlib.contextmanager
    def applied_to(self, model: nn.Module) -> Iterator[None]:
        """Within this context the model holds the averaged weights."""
        averaged = self.weights
        replaced = {name: weight for name, weight in trained(model).items() if name in averaged}
        own = {name: weight.data for name, weight in replaced.items()}
        for name, weight in replaced.items():
            weight.data = averaged[name]
        try:
            yield
        finally:
            for name, weight in replaced.items():
                weight.data = own[name]


class StoredAverage(Average):
    """An average that is updated after each step."""

    def __init__(self, model: nn.Module) -> None:
        self._trained = trained(model)
        self._weights: dict[str, Tensor] = {}

    @property
    def weights(self) -> Mapping[str, Tensor]:
        return self._weights

    def load(self, weights: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        for name, weight in self._weights.items():
            weight.copy_(weights[name])


class WeightAverage(StoredAverage):
    """a ← a + (1 − β_t) (w − a),   β_t = min(β, (1 + t) / (10 + t))

    Early on, (1 + t) / (10 + t) is the smaller term, so that the initial weights are soon forgotten."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__(model)
        self.decay = decay
        self._weights = _copies(self._trained)

    @torch.no_grad()
    def update(self, step: int) -> None:
        _move(self._weights, self._trained, 1.0 - min(self.decay, (1 + step) / (10 + step)))


class TriggeredAverage(StoredAverage):
    """a = (w_T + … + w_t) / (t − T + 1) from step T on, at which the validation loss was above the lowest of all validations but
    the last n: it has stopped improving, and w moves around a minimum (Merity et al. 2018, algorithm 1)."""

    def __init__(self, model: nn.Module, interval: int) -> None:
        super().__init__(model)
        self.interval = interval
        self.losses: list[float] = []  # of the validations before the trigger
        self.count = 0  # weights that were averaged; 0: not yet

    @torch.no_grad()
    def update(self, step: int) -> None:
        if self.count:
            self.count += 1
            _move(self._weights, self._trained, 1 / self.count)

    def validated(self, loss: float) -> None:
        if self.count:
            return
        before = self.losses[: len(self.losses) - self.interval]
        if len(self.losses) > self.interval and loss > min(before):
            self._weights, self.count = _copies(self._trained), 1
        self.losses.append(loss)

    def facts(self) -> dict[str, Any]:
        return {"losses": self.losses, "count": self.count}

    def load(self, weights: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        self.losses, self.count = [float(loss) for loss in facts["losses"]], int(facts["count"])
        self._weights = _copies(self._trained) if self.count else {}
        super().load(weights, facts)


def trained(model: nn.Module) -> dict[str, nn.Parameter]:
    """The average of a frozen weight is the weight."""
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def _copies(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in weights.items()}


def _move(average: Mapping[str, Tensor], weights: Mapping[str, Tensor], share: float) -> None:
    torch._foreach_lerp_([average[name] for name in weights], [weight.detach() for weight in weights.values()], share)
