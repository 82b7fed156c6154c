"""The state of a model between steps of decoding. Letters: B batch, T new tokens, C capacity, G key/value heads, D and E head
widths, L layers × directions, d width.

A state is a value: a step returns a new one and leaves the old one usable, so that a caller can branch from it. Every state has
`select(rows)`, which is all that beams and batches need.

`fixed(capacity)` gives up the first property for speed: keys and values get memory for `capacity` tokens, into which every step
writes, and every row has a length of its own. Shapes and addresses no longer change, so that a step can be recorded and replayed
(decoding/graphs/), and texts of different lengths take their steps together (decoding/engine/slots.py). `tensors()`, views with
the rows on the first axis, and `of(tensors)` take such a state apart and put it together again. Some also have `constants`,
numbers that a step depends on beside the tensors: where they differ, a step is recorded anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Protocol, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.errors import ConfigError

_TRITON = find_spec("triton") is not None
ROOM = 16  # the capacity of a selected state is a multiple of this many tokens


class State(Protocol):
    def select(self, rows: Tensor) -> Self:
        """The state of the given rows, in that order; a row may be taken more than once."""
        ...


class LayerState(State, Protocol):
    """The state of one layer of a Transformer: keys and values, or what linear attention keeps instead."""

    @property
    def length(self) -> Any:
        """The number of tokens processed; of a fixed state, one for each row."""
        ...


@dataclass(frozen=True, eq=False)
class RecurrentState:
    """h and, for an LSTM, c."""

    h_LBd: Tensor
    c_LBd: Tensor | None = None

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """(h,) or (h, c); undone by RecurrentState(*parts)."""
        return (self.h_LBd,) if self.c_LBd is None else (self.h_LBd, self.c_LBd)

    def select(self, rows: Tensor | slice) -> RecurrentState:
        return RecurrentState(*(part_LBd[:, rows] for part_LBd in self.parts))

    def fixed(self, capacity: int) -> RecurrentState:
        """Its size never depends on the length."""
        return self

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(part_LBd.transpose(0, 1) for part_LBd in self.parts)

    def of(self, tensors: Iterable[Tensor]) -> RecurrentState:
        return RecurrentState(*(part_BLd.transpose(0, 1) for part_BLd in tensors))

    def detach(self) -> RecurrentState:
        """The same values, with the graph behind them cut: the truncation of truncated backpropagation through time."""
        return RecurrentState(*(part_LBd.detach() for part_LBd in self.parts))

    @staticmethod
    def join(states: Sequence[RecurrentState]) -> RecurrentState:
        """The rows of all `states`, one after the other; undoes `select` of consecutive slices."""
        return RecurrentState(*(torch.cat(part, dim=1) for part in zip(*(state.parts for state in states), strict=True)))


@dataclass(eq=False)
class _Store:
    """Memory for keys and values, filled from the front; several KeyValue states may share prefixes of one store."""

    k_BGCD: Tensor
    v_BGCE: Tensor
    filled: int


@dataclass(frozen=True, eq=False)
class KeyValue:
    """The keys and values of one attention layer so far."""

    store: _Store | None = None
    length: int = 0
    room: int = 0  # the least capacity of the next store

    @property
    def kept(self) -> int:
        """The number of keys before those that `extend` appends."""
        return self.length

    def extend(self, k_BGTD: Tensor, v_BGTE: Tensor) -> tuple[Tensor, Tensor, KeyValue]:
        """All keys, all values, and the new state. Appends in place unless another state already did."""
        k_BGCD, v_BGCE, after = self.place(k_BGTD, v_BGTE)
        k_BGCD.narrow(2, self.length, after.length - self.length).copy_(k_BGTD)
        v_BGCE.narrow(2, self.length, after.length - self.length).copy_(v_BGTE)
        return k_BGCD.narrow(2, 0, after.length), v_BGCE.narrow(2, 0, after.length), after

    def place(self, k_BGTD: Tensor, v_BGTE: Tensor, count: int | None = None) -> tuple[Tensor, Tensor, KeyValue]:
        """Memory that holds the keys and values so far, and room after them for those given (or `count` like them), which the
        caller writes there; and the state that then holds them."""
        end = self.length + (k_BGTD.shape[2] if count is None else count)
        store = self.store
        if store is None or store.filled != self.length or end > store.k_BGCD.shape[2]:
            store = self._roomier(k_BGTD, v_BGTE, max(64, self.room if self.room >= end else 2 * end))
        store.filled = end
        return store.k_BGCD, store.v_BGCE, KeyValue(store, end)

    def _roomier(self, k_BGTD: Tensor, v_BGTE: Tensor, capacity: int) -> _Store:
        (B, G, _, D), E = k_BGTD.shape, v_BGTE.shape[3]
        store = _Store(k_BGTD.new_empty(B, G, capacity, D), v_BGTE.new_empty(B, G, capacity, E), self.length)
        if self.store is not None:
            store.k_BGCD[:, :, : self.length] = self.store.k_BGCD[:, :, : self.length]
            store.v_BGCE[:, :, : self.length] = self.store.v_BGCE[:, :, : self.length]
        return store

    def select(self, rows: Tensor) -> KeyValue:
        """With some spare capacity: a beam selects before every step, and would otherwise copy again to append."""
        if self.store is None:
            return self
        capacity = ROOM * (self.length // ROOM + 1)
        k_BGCD, v_BGCE = (x[:, :, :capacity].index_select(0, rows) for x in (self.store.k_BGCD, self.store.v_BGCE))
        return KeyValue(_Store(k_BGCD, v_BGCE, self.length), self.length)

    def cut(self, length: int) -> KeyValue:
        """The first `length` tokens of the text. Nothing is copied until something else is appended to them."""
        assert length <= self.length
        return KeyValue(self.store, length, self.room)

    def reclaim(self) -> KeyValue:
        """The same state, which from now on appends in place. Longer states that share its memory must no longer be used."""
        if self.store is not None:
            self.store.filled = self.length
        return self

    def reserve(self, capacity: int) -> KeyValue:
        """The same state; if it needs new memory, it takes enough for `capacity` tokens at once."""
        return KeyValue(self.store, self.length, capacity)

    def fixed(self, capacity: int) -> FixedKeyValue:
        if self.store is None:
            raise ConfigError("a state before the first token has no shape yet; process a token first")
        return FixedKeyValue.holding(*self.held(), self.length, capacity)

    def held(self) -> tuple[Tensor, Tensor]:
        assert self.store is not None
        return self.store.k_BGCD[:, :, : self.length], self.store.v_BGCE[:, :, : self.length]

    @staticmethod
    def within(k_BGCD: Tensor, v_BGCE: Tensor, length: int) -> KeyValue:
        """The first `length` tokens of this memory; what is appended is written there, too, as long as it has room."""
        return KeyValue(_Store(k_BGCD, v_BGCE, length), length)


@dataclass(frozen=True, eq=False)
class RecentKeyValue:
    """The keys and values of the last span − 1 tokens: all that the next query of a window needs besides its own."""

    span: int
    k_BGCD: Tensor | None = None
    v_BGCE: Tensor | None = None
    length: int = 0

    @property
    def kept(self) -> int:
        return min(self.length, self.span - 1)

    def extend(self, k_BGTD: Tensor, v_BGTE: Tensor) -> tuple[Tensor, Tensor, RecentKeyValue]:
        """The kept keys and values with the new ones after them, and the new state."""
        length = self.length + k_BGTD.shape[2]
        if self.k_BGCD is not None and self.v_BGCE is not None:
            k_BGTD, v_BGTE = torch.cat((self.k_BGCD, k_BGTD), 2), torch.cat((self.v_BGCE, v_BGTE), 2)
        first = max(0, k_BGTD.shape[2] - (self.span - 1))
        # Copies: a view would keep the whole prompt in memory.
        return k_BGTD, v_BGTE, RecentKeyValue(self.span, k_BGTD[:, :, first:].clone(), v_BGTE[:, :, first:].clone(), length)

    def select(self, rows: Tensor) -> RecentKeyValue:
        if self.k_BGCD is None or self.v_BGCE is None:
            return self
        return RecentKeyValue(self.span, self.k_BGCD.index_select(0, rows), self.v_BGCE.index_select(0, rows), self.length)

    def cut(self, length: int) -> RecentKeyValue:
        raise ConfigError("a window keeps only its last tokens; an earlier state cannot be restored from a later one")

    def fixed(self, capacity: int) -> FixedKeyValue:
        """With room for all positions, those before the window empty: its mask hides them."""
        if self.k_BGCD is None or self.v_BGCE is None:
            raise ConfigError("a state before the first token has no shape yet; process a token first")
        return FixedKeyValue.holding(self.k_BGCD, self.v_BGCE, self.length, capacity)


@dataclass(frozen=True, eq=False)
class FixedKeyValue:
    """Keys and values in memory for C tokens, row b holding length_B[b] of them. What lies beyond is masked by position."""

    k_BGCD: Tensor
    v_BGCE: Tensor
    length_B: Tensor

    @property
    def length(self) -> Tensor:
        return self.length_B

    @property
    def kept(self) -> Tensor:
        return self.length_B

    def extend(self, k_BGTD: Tensor, v_BGTE: Tensor) -> tuple[Tensor, Tensor, FixedKeyValue]:
        """All keys and values, with the new ones written in place; the lengths are advanced for all layers at once, by
        AttentionState.after. A row that is full overwrites its last token: nobody should ask for that."""
        B, _, T, _ = k_BGTD.shape
        if k_BGTD.is_cuda and not torch.compiler.is_compiling() and _TRITON:
            from firth.layers.kernels.triton.fixed_memory import write

            write(self.k_BGCD, self.v_BGCE, k_BGTD, v_BGTE, self.length_B)
            return self.k_BGCD, self.v_BGCE, self
        position_BT = (self.length_B[:, None] + torch.arange(T, device=k_BGTD.device)).clamp(max=self.k_BGCD.shape[2] - 1)
        row_B1 = torch.arange(B, device=k_BGTD.device)[:, None]
        self.k_BGCD[row_B1, :, position_BT] = k_BGTD.transpose(1, 2)
        self.v_BGCE[row_B1, :, position_BT] = v_BGTE.transpose(1, 2)
        if k_BGTD.is_cpu and not torch.compiler.is_compiling():  # elsewhere the length is not known without waiting for it
            reach = min(self.k_BGCD.shape[2], int(self.length_B.max()) + T)
            return self.k_BGCD[:, :, :reach], self.v_BGCE[:, :, :reach], self
        return self.k_BGCD, self.v_BGCE, self

    def select(self, rows: Tensor) -> FixedKeyValue:
        return FixedKeyValue(*(part.index_select(0, rows) for part in (self.k_BGCD, self.v_BGCE, self.length_B)))

    def at(self, length_B: Tensor) -> FixedKeyValue:
        return replace(self, length_B=length_B)

    def cut(self, length: int) -> FixedKeyValue:
        return replace(self, length_B=self.length_B.clamp(max=length))

    def fixed(self, capacity: int) -> FixedKeyValue:
        """With more or less room."""
        if capacity == self.k_BGCD.shape[2]:
            return self
        kept = min(capacity, self.k_BGCD.shape[2])
        k_BGCD, v_BGCE = (_roomy(part[:, :, :kept], 0, capacity) for part in (self.k_BGCD, self.v_BGCE))
        return FixedKeyValue(k_BGCD, v_BGCE, self.length_B)

    def tensors(self) -> tuple[Tensor, ...]:
        return self.k_BGCD, self.v_BGCE

    def of(self, tensors: Iterable[Tensor]) -> FixedKeyValue:
        k_BGCD, v_BGCE = tensors
        return FixedKeyValue(k_BGCD, v_BGCE, self.length_B)

    @staticmethod
    def holding(k_BGKD: Tensor, v_BGKE: Tensor, length: int, capacity: int) -> FixedKeyValue:
        """The last keys and values of `length` tokens."""
        first = length - k_BGKD.shape[2]
        if length > capacity:
            raise ConfigError(f"the text has {length:,} tokens, but there is memory for {capacity:,}")
        length_B = torch.full((len(k_BGKD),), length, device=k_BGKD.device)
        return FixedKeyValue(_roomy(k_BGKD, first, capacity), _roomy(v_BGKE, first, capacity), length_B)


def _roomy(part_BGKD: Tensor, first: int, capacity: int) -> Tensor:
    B, G, K, D = part_BGKD.shape
    roomy_BGCD = part_BGKD.new_zeros(B, G, capacity, D)  # not empty: 0 · NaN is NaN, even where a mask makes the weight 0
    roomy_BGCD[:, :, first : first + K] = part_BGKD
    return roomy_BGCD


@dataclass(frozen=True, eq=False)
class AttentionState:
    """The state of each layer; `length` tokens have been processed. Fixed layers share their lengths."""

    layers: tuple[Any, ...]  # a LayerState each; all fixed or none
    length_B: Tensor | None = None  # of fixed layers

    @property
    def length(self) -> Any:
        return self.layers[0].length if self.length_B is None else self.length_B

    def after(self, layers: Iterable[LayerState], tokens: int) -> AttentionState:
        """The state after a step of that many tokens, which has given these layers."""
        if self.length_B is None:
            return AttentionState(tuple(layers))
        return AttentionState(tuple(layers)).at(self.length_B + tokens)

    def at(self, length_B: Tensor) -> AttentionState:
        return AttentionState(tuple(layer.at(length_B) for layer in self.layers), length_B)

    def select(self, rows: Tensor) -> AttentionState:
        layers = AttentionState(tuple(layer.select(rows) for layer in self.layers))
        return layers if self.length_B is None else layers.at(self.length_B.index_select(0, rows))

    def cut(self, length: int) -> AttentionState:
        """The same texts, only their first `length` tokens."""
        layers = AttentionState(tuple(layer.cut(length) for layer in self.layers))
        return layers if self.length_B is None else layers.at(self.length_B.clamp(max=length))

    def fixed(self, capacity: int) -> AttentionState:
        """The same state in memory for `capacity` tokens."""
        length_B = self.length_B
        if length_B is None:
            layers = tuple(layer.fixed(capacity) for layer in self.layers)
            first = layers[0].tensors()[0]
            return AttentionState(layers).at(torch.full((len(first),), self.length, device=first.device))
        return AttentionState(tuple(layer.fixed(capacity) for layer in self.layers)).at(length_B)

    def tensors(self) -> tuple[Tensor, ...]:
        assert self.length_B is not None, "only a fixed state has tensors of its own"
        return self.length_B, *(tensor for layer in self.layers for tensor in layer.tensors())

    def of(self, tensors: Iterable[Tensor]) -> AttentionState:
        length_B, *rest = tensors
        return AttentionState(parted(self.layers, rest)).at(length_B)

    @property
    def cuttable(self) -> bool:
        """True if `cut` is possible: every layer still has the keys and values of all tokens, which windows and linear attention
        do not."""
        return all(isinstance(layer, KeyValue | FixedKeyValue) for layer in self.layers)

    def reclaim(self) -> AttentionState:
        """The same state, which from now on appends in place. Longer states of the same text must no longer be used."""
        for layer in self.layers:
            if isinstance(layer, KeyValue):
                layer.reclaim()
        return self

    def reserve(self, capacity: int) -> AttentionState:
        """The same state with memory for `capacity` tokens, so that a long text is not copied again and again as it grows."""
        layers = tuple(layer.reserve(capacity) if isinstance(layer, KeyValue) else layer for layer in self.layers)
        return replace(self, layers=layers)

    @staticmethod
    def empty(depth: int) -> AttentionState:
        return AttentionState(tuple(KeyValue() for _ in range(depth)))


def can_be_cut(state: Any) -> bool:
    """True if a state, of a Transformer or not, contains those after each of its tokens."""
    return isinstance(state, AttentionState) and state.cuttable


def roomy(part_BGSD: Tensor, multiple: int = 32) -> Tensor:
    """With zeros behind the S positions, to the next multiple: sources of different lengths then share recorded steps."""
    missing = -part_BGSD.shape[2] % multiple
    return F.pad(part_BGSD, (0, 0, 0, missing)) if missing else part_BGSD


def parted(states: Sequence[Any], tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    """Each of `states` with its share of the tensors."""
    parts, first = [], 0
    for state in states:
        end = first + len(state.tensors())
        parts.append(state.of(tensors[first:end]))
        first = end
    return tuple(parts)


def zeros(layers: int, batch: int, width: int, like: Tensor) -> Tensor:
    return torch.zeros(layers, batch, width, dtype=like.dtype, device=like.device)
