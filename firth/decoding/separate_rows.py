"""A stand-in for Slots: one growing state per row, one call per row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from firth.models import LanguageModel


class SeparateRows:
    def __init__(self, model: LanguageModel, rows: int, capacity: int | None) -> None:
        self.model, self.states = model, [model.start(1) for _ in range(rows)]

    def put(self, row: int, state: Any) -> None:
        self.states[row] = state

    def row(self, row: int) -> Any:
        return self.states[row]

    def move(self, source: int, target: int) -> None:
        self.states[target] = self.states[source]

    def step(self, token_n1: Tensor, n: int) -> Tensor:
        logits = []
        for row in range(n):
            logits_11V, self.states[row] = self.model.step(token_n1[row : row + 1], self.states[row])
            logits.append(logits_11V)
        return torch.cat(logits)
