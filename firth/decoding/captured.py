"""Steps of one token that are recorded once, as a CUDA graph, and then replayed: one launch instead of hundreds.

At batch 1 a GPU computes a step in less time than Python needs to ask for it. A graph repeats the same kernels on the same
addresses, so it needs states of a fixed size (layers/state.py), and it writes its results over those of the step before: the
logits and the state that `step` returns are valid until the next call with the same shapes. Everything that is not a step of one
token on a GPU is passed on to the model as it is.

Letters: R rows, T time, V vocabulary.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

from firth.layers.state import AttentionState
from firth.models.decoder import Decoder
from firth.models.stack import Stack

LEAST_ROOM = 256  # tokens; the capacity is this many times a power of two, so that few graphs are needed
_WORTH_IT = 2  # steps of the same shapes before they are recorded
_MOST = 8  # graphs of one model
_OF_MODEL: weakref.WeakKeyDictionary[nn.Module, Captured] = weakref.WeakKeyDictionary()

_Key = tuple[tuple[int, ...], ...]


def captured(model: Decoder) -> Captured:
    """The recorded steps of a model, made once for as long as it lives."""
    if model not in _OF_MODEL:
        _OF_MODEL[model] = Captured(model)
    return _OF_MODEL[model]


def can_capture(model: nn.Module) -> bool:
    return next(model.parameters()).is_cuda


def room_for(length: int, most: int | None = None) -> int:
    """The capacity for a text of `length` tokens that may grow to `most`."""
    capacity = LEAST_ROOM
    while capacity < length:
        capacity *= 2
    return capacity if most is None else max(length, min(capacity, most))


class Captured:
    """A model whose steps are replayed."""

    def __init__(self, model: Decoder) -> None:
        # Not a reference to the model itself: this object lives in a table for as long as the model does.
        self._model = weakref.ref(model)
        self._recorded: OrderedDict[_Key, _Recorded] = OrderedDict()
        self._seen: dict[_Key, int] = {}
        self._pool: Any = None

    @property
    def model(self) -> Decoder:
        model = self._model()
        assert model is not None
        return model

    def fixed(self, state: Any, capacity: int) -> Any:
        """The state with room for `capacity` tokens; the model's tables of positions reach as far."""
        for module in self.model.modules():
            if isinstance(module, Stack):
                module.reach(capacity)
        return state.fixed(capacity)

    @torch.inference_mode()
    def step(self, token_RT: Tensor, state: Any) -> tuple[Tensor, Any]:
        if token_RT.shape[1] != 1 or not token_RT.is_cuda or not is_fixed(state):
            return self.model.step(token_RT, state)
        key = (tuple(token_RT.shape), *(tuple(tensor.shape) for tensor in state.tensors()))
        recorded = self._recorded.get(key)
        if recorded is None:
            self._seen[key] = self._seen.get(key, 0) + 1
            if self._seen[key] <= _WORTH_IT:
                return self.model.step(token_RT, state)
            recorded = self._record(key, token_RT, state)
        self._recorded.move_to_end(key)
        return recorded(token_RT, state)

    def _record(self, key: _Key, token_R1: Tensor, state: Any) -> _Recorded:
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        while len(self._recorded) >= _MOST:
            self._recorded.popitem(last=False)
        recorded = _Recorded(self.model, token_R1, state, self._pool)
        self._recorded[key] = recorded
        return recorded


class _Recorded:
    """One graph with its input, its state and its output."""

    def __init__(self, model: Decoder, token_R1: Tensor, state: Any, pool: Any) -> None:
        self.token_R1 = token_R1.clone()
        self.state = state.of([tensor.clone() for tensor in state.tensors()])
        # A table of positions may grow and be replaced; the graph goes on reading the old one.
        self.kept = [*model.parameters(), *model.buffers()]
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(2):  # what is compiled, tuned or allocated at first use must not be recorded
                self._advance(model)
        torch.cuda.current_stream().wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        # Other threads may use the GPU meanwhile.
        with torch.cuda.graph(self.graph, pool=pool, capture_error_mode="thread_local"):
            self.logits_R1V = self._advance(model)

    def _advance(self, model: Decoder) -> Tensor:
        logits_R1V, after = model.step(self.token_R1, self.state)
        for tensor, new in zip(self.state.tensors(), after.tensors(), strict=True):
            if tensor.data_ptr() != new.data_ptr():
                tensor.copy_(new)
        return logits_R1V

    def __call__(self, token_R1: Tensor, state: Any) -> tuple[Tensor, Any]:
        self.token_R1.copy_(token_R1)
        if state is not self.state:
            for tensor, given in zip(self.state.tensors(), state.tensors(), strict=True):
                if tensor.data_ptr() != given.data_ptr():
                    tensor.copy_(given)
        self.graph.replay()
        return self.logits_R1V, self.state


def is_fixed(state: Any) -> bool:
    own = getattr(state, "own", state)  # an encoder–decoder's state has one of its own beside the source
    return not isinstance(own, AttentionState) or own.length_B is not None
