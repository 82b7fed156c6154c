"""Memory for several texts of different lengths that take their steps together. Letters: R rows, n rows of a step, V vocabulary.

The memory is allocated once: R rows of `capacity` tokens each. A text is read in its row (row_views.py), and from then on the
first n rows advance together, one token per step.
"""

from __future__ import annotations

import torch
from torch import Tensor

from firth.decoding.graphs.recorded import advance_in_place
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

    @torch.inference_mode()
    def step(self, token_n1: Tensor, rows: int) -> Tensor:
        """The logits_nV after one more token in each of the first `rows` rows."""
        state = self.state.of([tensor[:rows] for tensor in self.state.tensors()])
        logits_n1V, after = self.model.step(token_n1, state)
        advance_in_place(state, after)
        return logits_n1V[:, -1]
