"""Steps of decoding that are recorded and then replayed (recorded.py).

At batch 1 a GPU computes a step in less time than Python needs to ask for it. A recorded step needs states of a fixed size
(layers/state.py) and writes its results over those of the step before: the logits and the state that `step` and `read` return are
valid until the next call with a state of the same shapes.

Prompts and verified proposals of up to MOST tokens are recorded, too, where the state can forget tokens: they are padded to a
power of two, so that few graphs are needed, and the padding is cut off again,

    h_1 … h_W = hidden(x_1 … x_T, 0 …),   logits = readout(h_T),   length ← length + T,   W = 2^⌈log₂ T⌉

which changes nothing, because no token sees a later one. Everything else is passed on to the model as it is.

Letters: R rows, T time, W time with padding, V vocabulary.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from firth.decoding.config import DecodingConfig
from firth.decoding.graphs.recorded import advance_in_place, overwritten
from firth.decoding.sampling.choice import pick
from firth.layers.kernels.recorded import GraphMemory, Recorded, copy_all, lend_memory
from firth.layers.state import AttentionState, can_be_cut
from firth.models.decoder import Decoder
from firth.models.stack import Stack

LEAST_ROOM = 256  # tokens; the capacity is this many times a power of two, so that few graphs are needed
MOST = 64  # tokens of a recorded step
_WORTH_IT = 2  # steps of the same shapes before they are recorded
_GRAPHS = 16  # of one Captured
_SHARE = 16  # a state that takes more than this part of the GPU's memory is not kept for replaying
_IDLE = 2  # Captured that wait for the next text of a model

_Shapes = tuple[tuple[int, ...], ...]  # its constants first
_Key = tuple[int, int, bool, _Shapes]  # rows, width, whether the logits of all tokens are wanted, the state

_idle: weakref.WeakKeyDictionary[nn.Module, list[Captured]] = weakref.WeakKeyDictionary()
_lock = threading.RLock()  # what is collected as garbage may be taken back in the middle of `lend`


def lend(model: Decoder, borrower: object) -> Captured:
    """Recorded steps of a model, for as long as the borrower lives. Texts that are generated at the same time each borrow their
    own, so that no step overwrites another text's memory."""
    with _lock:
        idle = _idle.setdefault(model, [])
        while idle and not idle[-1].is_current:
            idle.pop()
        captured = idle.pop() if idle else Captured(model)
    weakref.finalize(borrower, _take_back, captured).atexit = False
    return captured


def _take_back(captured: Captured) -> None:
    model = captured.model
    with _lock:
        idle = None if model is None else _idle.get(model)
        if idle is not None and len(idle) < _IDLE:
            idle.append(captured)


def can_capture(model: nn.Module) -> bool:
    return next(model.parameters()).is_cuda


def room_for(length: int, most: int | None = None) -> int:
    """The capacity for a text of `length` tokens that may grow to `most`."""
    capacity = LEAST_ROOM
    while capacity < length:
        capacity *= 2
    return capacity if most is None else max(length, min(capacity, most))


def padded_width(tokens: int) -> int:
    """The width at which a step of that many tokens is recorded."""
    return 1 << (tokens - 1).bit_length()


class Captured:
    """A model whose steps are replayed."""

    def __init__(self, model: Decoder, graphs: int = _GRAPHS) -> None:
        # Not a reference to the model itself: this object waits in a table for as long as the model lives.
        self._model = weakref.ref(model)
        self._steps: dict[_Key, _Step] = {}
        self._picks: OrderedDict[Any, _Pick] = OrderedDict()
        self._seen: dict[Any, int] = {}
        self._graphs = graphs
        self._last: _Step | None = None
        self._graph_memory: GraphMemory | None = None
        self._places = _places(model)

    @property
    def model(self) -> Decoder | None:
        return self._model()

    @property
    def is_current(self) -> bool:
        """True if the model's weights are still in the same memory. A model that was moved, converted or quantised has new ones,
        which no graph uses."""
        model = self.model
        return model is not None and _places(model) == self._places

    def fixed(self, state: Any, capacity: int) -> Any:
        """The state with room for `capacity` tokens; the model's tables of positions reach as far."""
        self._reach(capacity)
        return state.fixed(capacity)

    @cached_property
    @torch.inference_mode()
    def _one(self) -> Any:
        """A state after one token; the shapes of all other states follow from its shapes."""
        model: Any = self.model
        device = next(model.parameters()).device
        return model.hidden(torch.zeros(1, 1, dtype=torch.int64, device=device), model.start(1))[1]

    @property
    def can_start(self) -> bool:
        """True if a text may start from a state of fixed size, which must be able to forget all its tokens."""
        return can_be_cut(self._one.fixed(1))

    @torch.inference_mode()
    def start(self, rows: int, capacity: int) -> Any:
        """The state before the first token. It may be that of an earlier text with the same shapes, which must have ended."""
        self._reach(capacity)
        like = self._one.fixed(capacity)
        sizes = [(rows, *tensor.shape[1:]) for tensor in like.tensors()]
        state = self._memory((getattr(like, "constants", ()), *sizes))
        if state is None:
            return like.of([tensor.new_zeros(size) for tensor, size in zip(like.tensors(), sizes, strict=True)])
        torch._foreach_zero_(list(state.tensors()))
        return state

    def step(self, token_RT: Tensor, state: Any, *, spare: int = 0) -> tuple[Tensor, Any]:
        """model.step: the logits after every token. `spare`: room of the state for padding after them."""
        return self._run(token_RT, state, spare, every=True)

    def read(self, token_RT: Tensor, state: Any, *, spare: int = 0) -> tuple[Tensor, Any]:
        """As `step`, but the logits_R1V after the last token only."""
        return self._run(token_RT, state, spare, every=False)

    @torch.inference_mode()
    def read_padded(self, token_RW: Tensor, count_R: Tensor, capacity: int) -> tuple[Tensor, Any]:
        """Texts from their first token on: row r has count_R[r] tokens and then padding; W is a power of two. The logits_R1V
        after their last tokens, and the state. Recorded at once, because the same caller will ask again."""
        state = self.start(len(token_RW), capacity)
        key = (*token_RW.shape, False, _shapes(state))
        step = self._steps.get(key) or self._record(key, state)
        return step(token_RW, state, count_R)

    @torch.inference_mode()
    def pick(self, logits_RV: Tensor, config: DecodingConfig, u_R: Tensor) -> Tensor:
        """choice.pick, replayed if the logits are those of a recorded step."""
        step = self._last
        if not config.draws or step is None or logits_RV.data_ptr() != step.recorded.result.data_ptr():
            return pick(logits_RV, config, u_R)
        key = (logits_RV.data_ptr(), logits_RV.shape, config)
        recorded = self._picks.get(key)
        if recorded is None:
            if not self._worth_it(key):
                return pick(logits_RV, config, u_R)
            recorded = self._picks[key] = _Pick(logits_RV, config, u_R, self._lent_memory(), step)
            while len(self._picks) > self._graphs:
                self._picks.popitem(last=False)
        return recorded(u_R).clone()

    @torch.inference_mode()
    def _run(self, token_RT: Tensor, state: Any, spare: int, *, every: bool) -> tuple[Tensor, Any]:
        rows, tokens = token_RT.shape
        last = self._last
        if last is not None and last.state is state and tokens == 1 and last.shape == (rows, 1):
            return last(token_RT, state)  # the usual case: the next token of the same text
        if not _can_replay(token_RT, state, spare):
            return self._plain(token_RT, state, every)
        key = (rows, padded_width(tokens), every and tokens > 1, _shapes(state))
        worth_it, step = self._worth_it(key), self._steps.get(key)
        if step is None:
            if not (worth_it and self._has_place(key, state)):
                return self._plain(token_RT, state, every)
            step = self._record(key, state)
        self._last = step
        return step(token_RT, state)

    def _plain(self, token_RT: Tensor, state: Any, every: bool) -> tuple[Tensor, Any]:
        model = self.model
        assert model is not None
        x_RTd, state = model.hidden(token_RT, state)
        return model.readout(x_RTd if every else x_RTd[:, -1:]), state

    def _worth_it(self, key: Any) -> bool:
        self._seen[key] = self._seen.get(key, 0) + 1
        return self._seen[key] > _WORTH_IT

    def _record(self, key: _Key, state: Any) -> _Step:
        model, memory = self.model, self._memory(key[-1])
        assert model is not None
        if memory is None:
            memory = state.of([tensor.clone() for tensor in state.tensors()])
        step = self._steps[key] = _Step(model, memory, key, self._lent_memory())
        return step

    def _has_place(self, key: _Key, state: Any) -> bool:
        """True if another graph may be kept; if there are too many, it replaces one whose shapes occur less often."""
        tensors = state.tensors()
        total = torch.cuda.get_device_properties(tensors[0].device).total_memory
        if sum(tensor.nbytes for tensor in tensors) * _SHARE > total:
            return False
        if len(self._steps) < self._graphs:
            return True
        rarest = min(self._steps, key=lambda other: self._seen.get(other, 0))
        if self._seen[key] <= self._seen.get(rarest, 0):
            return False
        del self._steps[rarest]
        return True

    def _memory(self, shapes: _Shapes) -> Any:
        """The state that recorded steps with these shapes share, if there is one."""
        return next((step.state for key, step in self._steps.items() if key[-1] == shapes), None)

    def _lent_memory(self) -> GraphMemory:
        model = self.model
        assert model is not None
        self._graph_memory = self._graph_memory or lend_memory(self, next(model.parameters()).device)
        return self._graph_memory

    def _reach(self, capacity: int) -> None:
        assert self.model is not None
        for module in self.model.modules():
            if isinstance(module, Stack):
                module.reach(capacity)


class _Step:
    """One graph with its input, its state and its output."""

    def __init__(self, model: Decoder, state: Any, key: _Key, memory: GraphMemory) -> None:
        rows, width, every, _ = key
        self.state, self.shape = state, (rows, width)
        self._tensors = state.tensors()
        device = self._tensors[0].device
        self._token_RW = torch.zeros(rows, width, dtype=torch.int64, device=device)
        self._count_R = torch.ones(rows, dtype=torch.int64, device=device)  # tokens that are not padding
        self._every = every

        def work() -> Tensor:
            logits, after = padded_step(model, self._token_RW, self._count_R, state, every)
            advance_in_place(state, after)
            return logits

        self.recorded = Recorded(work, overwritten(state), memory, model)

    def __call__(self, token_RT: Tensor, state: Any, count_R: Tensor | None = None) -> tuple[Tensor, Any]:
        tokens = token_RT.shape[1]
        self._token_RW[:, :tokens].copy_(token_RT)
        if count_R is not None:
            self._count_R.copy_(count_R)
        elif self.shape[1] > 1:
            self._count_R.fill_(tokens)
        if state is not self.state:
            pairs = zip(self._tensors, state.tensors(), strict=True)
            moved = [(own, given) for own, given in pairs if own.data_ptr() != given.data_ptr()]
            copy_all([own for own, _ in moved], [given for _, given in moved])
        logits = self.recorded.replay()
        return logits[:, :tokens] if self._every else logits, self.state


class _Pick:
    """A graph of choice.pick for the logits of one recorded step. It is kept with that step, because it reads its memory."""

    def __init__(self, logits_RV: Tensor, config: DecodingConfig, u_R: Tensor, memory: GraphMemory, step: _Step) -> None:
        self._step, self._u_R = step, u_R.clone()
        self._recorded = Recorded(lambda: pick(logits_RV, config, self._u_R), (), memory)

    def __call__(self, u_R: Tensor) -> Tensor:
        self._u_R.copy_(u_R)
        return self._recorded.replay()


def padded_step(model: Decoder, token_RW: Tensor, count_R: Tensor, state: Any, every: bool) -> tuple[Tensor, Any]:
    """The logits after the first count_R[r] tokens of each row (those after padding are of no use) or after the last of them, and
    the state after them. Only a state that can forget tokens may have padding."""
    x_RWd, after = model.hidden(token_RW, state)
    rows, width = token_RW.shape
    if width == 1:
        return model.readout(x_RWd), after
    last_R = count_R - 1
    x_RTd = x_RWd if every else x_RWd[torch.arange(rows, device=last_R.device), last_R].unsqueeze(1)
    return model.readout(x_RTd), after.at(state.length_B + count_R)


def _can_replay(token_RT: Tensor, state: Any, spare: int) -> bool:
    if not token_RT.is_cuda or not is_fixed(state):
        return False
    tokens = token_RT.shape[1]
    return tokens == 1 or (tokens <= MOST and padded_width(tokens) - tokens <= spare and can_be_cut(state))


def is_fixed(state: Any) -> bool:
    own = getattr(state, "own", state)  # an encoder–decoder's state has one of its own beside the source
    return not isinstance(own, AttentionState) or own.length_B is not None


def _shapes(state: Any) -> _Shapes:
    return getattr(state, "constants", ()), *(tuple(tensor.shape) for tensor in state.tensors())


def _places(model: nn.Module) -> list[tuple[int, torch.dtype]]:
    """The addresses of the weights. Quantised ones are buffers; those that are not saved are tables, which may grow."""
    saved = model.state_dict(keep_vars=True).values()
    return [(tensor.data_ptr(), tensor.dtype) for tensor in saved]
