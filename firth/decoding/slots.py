"""Memory for several texts of different lengths that take their steps together. Letters: R rows, n rows of a step, V vocabulary.

The memory is allocated once: R rows of `capacity` tokens each. A text is read with a growing state of its own (`put` copies that
into a row), and from then on all rows advance together, one token per step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from firth.layers.state import AttentionState, FixedKeyValue, KeyValue
from firth.models import LanguageModel
from firth.models.stack import Stack


class Slots:
    """`capacity` is None for models whose state does not grow."""

    @torch.inference_mode()
    def __init__(self, model: LanguageModel, rows: int, capacity: int | None) -> None:
        self.model, self.rows, self.capacity = model, rows, capacity
        device = next(model.parameters()).device
        _, one = model.hidden(torch.zeros(1, 1, dtype=torch.long, device=device), model.start(1))
        one = one.fixed(capacity or 1)
        self.state = one.of([tensor.new_zeros(rows, *tensor.shape[1:]) for tensor in one.tensors()])
        if capacity is not None and isinstance(model, Stack):
            model.reach(capacity)

    @property
    def length_R(self) -> Tensor | None:
        """The tokens in each row; None for recurrent models, which do not count them."""
        return self.state.length_B if isinstance(self.state, AttentionState) else None

    @torch.inference_mode()
    def put(self, row: int, state: Any) -> None:
        """A state of one text into a row."""
        fixed = state.fixed(state.length if isinstance(state, AttentionState) else 1)
        for tensor, of_one in zip(self.state.tensors(), fixed.tensors(), strict=True):
            target = tensor[row]
            if of_one.ndim == 4 and of_one.shape[2] != target.shape[1]:  # keys and values: only as many as there are
                target = target[:, : of_one.shape[2]]
            target.copy_(of_one[0])

    @torch.inference_mode()
    def row(self, row: int, length: int) -> Any:
        """The first `length` tokens of a row as a growing state of one text, without copying them; recurrent states and sums over
        the past belong to the whole text only. Read on from it before the row takes another step."""
        if not isinstance(self.state, AttentionState):
            return self.state.of([tensor[row : row + 1].clone() for tensor in self.state.tensors()])
        layers = []
        for layer in self.state.layers:
            if isinstance(layer, FixedKeyValue):
                layers.append(KeyValue.of_tensors(*(part[row : row + 1, :, :length] for part in layer.tensors())))
            else:
                layers.append(layer.of([part[row : row + 1].clone() for part in layer.tensors()]).at(length))
        return AttentionState(tuple(layers))

    @torch.inference_mode()
    def move(self, source: int, target: int) -> None:
        """Copy one row over another."""
        for tensor in self.state.tensors():
            tensor[target].copy_(tensor[source])

    @torch.inference_mode()
    def step(self, token_n1: Tensor, rows: int) -> Tensor:
        """The logits_nV after one more token in each of the first `rows` rows."""
        state = self.state.of([tensor[:rows] for tensor in self.state.tensors()])
        logits_n1V, after = self.model.step(token_n1, state)
        for tensor, new in zip(state.tensors(), after.tensors(), strict=True):
            if tensor.data_ptr() != new.data_ptr():
                tensor.copy_(new)
        return logits_n1V[:, -1]
