"""Memory for several texts of different lengths that take their steps together. Letters: R rows, n rows of a step, V vocabulary.

The memory is allocated once: R rows of `capacity` tokens each. A text is read in its row (row_views.py), and from then on the
first n rows advance together, one token per step.
"""

from __future__ import annotations

import torch
from torch import Tensor

from firth.decoding.graphs.captured import can_capture
from firth.decoding.graphs.recorded import advance_in_place, overwritten
from firth.layers.kernels.recorded import GraphMemory, Recorded, lend_memory
from firth.models import LanguageModel
from firth.models.stack import Stack

_WORTH_IT = 3  # steps of n rows before they are recorded: a batch that grows or shrinks passes through most n only once


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


class CapturedSlots:
    """Slots whose `step` is recorded on a GPU, in the slots' own memory, so that nothing is copied before a replay: one graph for
    each number of rows, recorded when it has been seen a few times."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self._captures = can_capture(slots.model)
        self.graphs: dict[int, tuple[Tensor, Recorded[Tensor]]] = {}  # of steps of that many rows, with their tokens
        self._seen: dict[int, int] = {}
        self._graph_memory: GraphMemory | None = None

    @torch.inference_mode()
    def step(self, token_n1: Tensor, rows: int) -> Tensor:
        """See Slots.step. On a GPU the logits_nV are valid until the next step."""
        if not self._captures:
            return self.slots.step(token_n1, rows)
        if rows not in self.graphs:
            self._seen[rows] = self._seen.get(rows, 0) + 1
            if self._seen[rows] <= _WORTH_IT:
                return self.slots.step(token_n1, rows)
            self._record(token_n1, rows)
        own_n1, recorded = self.graphs[rows]
        own_n1.copy_(token_n1)
        return recorded.replay()

    @torch.inference_mode()
    def warm_up(self) -> None:
        """Record the steps for every number of rows before the first request."""
        if self._captures:
            for rows in range(self.slots.rows, 0, -1):
                self._record(torch.zeros(rows, 1, dtype=torch.int64, device=self.slots.state.tensors()[0].device), rows)

    def _record(self, token_n1: Tensor, rows: int) -> None:
        self._graph_memory = self._graph_memory or lend_memory(self, token_n1.device)
        own_n1 = token_n1.clone()
        changed = overwritten(self.slots.state)
        recorded = Recorded(lambda: self.slots.step(own_n1, rows), changed, self._graph_memory, self.slots.model)
        self.graphs[rows] = own_n1, recorded
