"""Work on a GPU that is recorded once, as a CUDA graph, and then replayed: one launch instead of hundreds.

A graph repeats the same kernels on the same addresses: it reads its inputs where they were when it was recorded, and writes its
results over those of the replay before. So everything it uses must stay where it is for as long as it lives. Inputs and weights
are held by whoever records; `GraphMemory` holds the rest.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

T = TypeVar("T")

_NON_BLOCKING = 1  # the driver's name for a stream that does not wait for the default stream
_recording = threading.Lock()  # torch records one graph at a time
_guard = threading.RLock()  # an owner may be collected in the middle of `lend_memory`
_free: defaultdict[torch.device, list[GraphMemory]] = defaultdict(list)


class GraphMemory:
    """Memory and a stream for graphs that never run at the same time.

    The stream is ours alone, because torch keeps one workspace of cuBLAS per stream, in the memory of whichever graph was the
    first to multiply on it. On torch's own stream for recording, that may be a graph of another library, or of a model that is
    gone: its memory is freed when somebody clears the workspaces, as torch.compile does before it records, and our graphs would
    go on multiplying in it. Here the workspace is in `pool`, which `_kept` keeps alive."""

    def __init__(self, device: torch.device) -> None:
        with torch.cuda.device(device):
            torch.cuda.synchronize()  # makes the device's context the current one
            self.stream = torch.cuda.ExternalStream(_new_stream(), device)  # type: ignore[no-untyped-call]
            self.pool = torch.cuda.graph_pool_handle()
            self._kept = torch.cuda.CUDAGraph()
            with self.recording(self._kept):
                torch.zeros(1, device=device)

    def recording(self, graph: torch.cuda.CUDAGraph) -> torch.cuda.graph:
        # Other threads may use the GPU meanwhile.
        return torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local")


def lend_memory(owner: object, device: torch.device) -> GraphMemory:
    """Memory for as long as the owner lives; afterwards it serves the next one, since neither its stream nor its workspace can
    be given back."""
    with _guard:
        free = _free[device]
        memory = free.pop() if free else None
    if memory is None:
        with _recording:
            memory = GraphMemory(device)
    weakref.finalize(owner, _give_back, device, memory).atexit = False
    return memory


def _give_back(device: torch.device, memory: GraphMemory) -> None:
    with _guard:
        _free[device].append(memory)


def _new_stream() -> int:
    """A stream that torch does not give to anyone else."""
    driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    stream = ctypes.c_void_p()
    if code := driver.cuStreamCreate(ctypes.byref(stream), _NON_BLOCKING):
        raise RuntimeError(f"the CUDA driver could not create a stream (error {code})")
    assert stream.value is not None
    return stream.value


class Recorded(Generic[T]):
    """`work()` as a graph. Replaying it fills `result`, which is what it returned when it was recorded.

    It runs a few times before: what is compiled, tuned or allocated at first use must not be recorded. `changed`: tensors whose
    values it replaces, which get them back."""

    def __init__(
        self, work: Callable[[], T], changed: Sequence[Tensor], memory: GraphMemory, model: nn.Module | None = None
    ) -> None:
        # A table of positions may grow and be replaced, a model be moved; the graph goes on reading the old tensors.
        self._held = [] if model is None else [tensor.detach() for tensor in (*model.parameters(), *model.buffers())]
        before = [tensor.clone() for tensor in changed]
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(2):
                work()
                copy_all(changed, before)
        torch.cuda.current_stream().wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        with _recording, memory.recording(self._graph):
            self.result = work()

    def replay(self) -> T:
        self._graph.replay()
        return self.result


def copy_all(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Each source to its target, in few launches."""
    if targets:
        torch._foreach_copy_(list(targets), list(sources))
