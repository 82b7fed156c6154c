"""Steps of the first n rows of Slots, recorded on a GPU in the slots' own memory: nothing is copied before a replay.

One graph for each n, recorded when n has been seen a few times. Letters: n rows of a step, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from firth.decoding.captured import can_capture
from firth.decoding.slots import Slots
from firth.layers.state import AttentionState, FixedKeyValue

_WORTH_IT = 3  # steps of n rows before they are recorded: a batch that grows or shrinks passes through most n only once


class CapturedSlots:
    """`step` of `slots`, replayed where that is possible."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self._captures = can_capture(slots.model)
        self.graphs: dict[int, _Recorded] = {}  # of steps of that many rows
        self._seen: dict[int, int] = {}
        self._pool: Any = None

    @torch.inference_mode()
    def step(self, token_n1: Tensor, rows: int) -> Tensor:
        """See Slots.step. On a GPU the logits_nV are valid until the next step."""
        if not self._captures:
            return self.slots.step(token_n1, rows)
        recorded = self.graphs.get(rows)
        if recorded is None:
            self._seen[rows] = self._seen.get(rows, 0) + 1
            if self._seen[rows] <= _WORTH_IT:
                return self.slots.step(token_n1, rows)
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            recorded = self.graphs[rows] = _Recorded(self.slots, token_n1, rows, self._pool)
        recorded.token_n1.copy_(token_n1)
        recorded.graph.replay()
        return recorded.logits_nV


class _Recorded:
    """The graph of a step of the first `rows` rows, with its input and output."""

    def __init__(self, slots: Slots, token_n1: Tensor, rows: int, pool: Any) -> None:
        self.token_n1 = token_n1.clone()
        # A table of positions may grow and be replaced; the graph goes on reading the old one.
        self.kept = [*slots.model.parameters(), *slots.model.buffers()]
        # The first steps are not recorded, so what they do must be undone. Keys and values need not be: they come after those
        # of the text, where the next step writes.
        changed = [(tensor, tensor.clone()) for tensor in overwritten(slots.state)]
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(2):
                slots.step(self.token_n1, rows)
        torch.cuda.current_stream().wait_stream(aside)
        for tensor, before in changed:
            tensor.copy_(before)
        self.graph = torch.cuda.CUDAGraph()
        # Other threads may use the GPU meanwhile.
        with torch.cuda.graph(self.graph, pool=pool, capture_error_mode="thread_local"):
            self.logits_nV = slots.step(self.token_n1, rows)


def overwritten(state: Any) -> list[Tensor]:
    """The tensors whose values a step replaces; to keys and values it only adds."""
    if not isinstance(state, AttentionState):
        return list(state.tensors())
    assert state.length_B is not None
    rest = [tensor for layer in state.layers if not isinstance(layer, FixedKeyValue) for tensor in layer.tensors()]
    return [state.length_B, *rest]
