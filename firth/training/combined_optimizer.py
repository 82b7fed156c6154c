"""Several optimisers, each with weights of its own, as one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import torch


class CombinedOptimizer(torch.optim.Optimizer):
    """The parts share its groups and its state."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        super().__init__([group for part in parts for group in part.param_groups], {})
        self._parts = parts
        self._share()

    def _share(self) -> None:
        groups = iter(self.param_groups)
        for part in self._parts:
            part.param_groups, part.state = list(islice(groups, len(part.param_groups))), self.state

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None if closure is None else torch.enable_grad()(closure)()
        for part in self._parts:
            part.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._share()
