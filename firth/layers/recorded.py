"""Work on a GPU that is recorded once, as a CUDA graph, and then replayed: one launch instead of hundreds.

A graph repeats the same kernels on the same addresses: it reads its inputs where they were when it was recorded, and writes its
results over those of the replay before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

T = TypeVar("T")


class Recorded(Generic[T]):
    """`work()` as a graph. Replaying it fills `result`, which is what it returned when it was recorded.

    It runs a few times before: what is compiled, tuned or allocated at first use must not be recorded. `changed`: tensors whose
    values it replaces, which get them back."""

    def __init__(self, work: Callable[[], T], changed: Sequence[Tensor], pool: Any, model: nn.Module | None = None) -> None:
        # A table of positions may grow and be replaced, a model be moved; the graph goes on reading the old tensors.
        self._kept = [] if model is None else [tensor.detach() for tensor in (*model.parameters(), *model.buffers())]
        before = [tensor.clone() for tensor in changed]
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(2):
                work()
                copy_all(changed, before)
        torch.cuda.current_stream().wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        # Other threads may use the GPU meanwhile.
        with torch.cuda.graph(self._graph, pool=pool, capture_error_mode="thread_local"):
            self.result = work()

    def replay(self) -> T:
        self._graph.replay()
        return self.result


def copy_all(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Each source to its target, in few launches."""
    if targets:
        torch._foreach_copy_(list(targets), list(sources))
