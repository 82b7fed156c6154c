"""The state of a model between steps of decoding. Letters: B batch, T new tokens, C capacity, G key/value heads, D and E head
widths, L layers × directions, d width.

A state is a value: a step returns a new one and leaves the old one usable, so that a caller can branch from it. Every state has
`select(rows)`, which is all that beams and batches need.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

ROOM = 16  # the capacity of a selected state is a multiple of this many tokens


class State(Protocol):
    def select(self, rows: Tensor) -> Self:
        """The state of the given rows, in that order; a row may be taken more than once."""
        ...


class LayerState(State, Protocol):
    """The state of one layer of a Transformer: keys and values, or what linear attention keeps instead."""

    @property
    def length(self) -> int:
        """The number of tokens processed."""
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
        end = self.length + k_BGTD.shape[2]
        store = self.store
        if store is None or store.filled != self.length or end > store.k_BGCD.shape[2]:
            store = self._roomier(k_BGTD, v_BGTE, max(64, self.room if self.room >= end else 2 * end))
        store.k_BGCD.narrow(2, self.length, end - self.length).copy_(k_BGTD)
        store.v_BGCE.narrow(2, self.length, end - self.length).copy_(v_BGTE)
        store.filled = end
        return store.k_BGCD.narrow(2, 0, end), store.v_BGCE.narrow(2, 0, end), KeyValue(store, end)

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


@dataclass(frozen=True, eq=False)
class AttentionState:
    """The state of each layer; `length` tokens have been processed."""

    layers: tuple[LayerState, ...]

    @property
    def length(self) -> int:
        return self.layers[0].length

    def select(self, rows: Tensor) -> AttentionState:
        return AttentionState(tuple(layer.select(rows) for layer in self.layers))

    @property
    def cuttable(self) -> bool:
        """Whether `cut` is possible: every layer still has the keys and values of all tokens, which windows and linear attention
        do not."""
        return all(isinstance(layer, KeyValue) for layer in self.layers)

    def cut(self, length: int) -> AttentionState:
        """The state after the first `length` tokens of the text."""
        if not self.cuttable:
            raise ValueError("windows and linear attention do not keep the past; step again from an earlier state")
        return AttentionState(tuple(layer.cut(length) for layer in self._key_values()))

    def reclaim(self) -> AttentionState:
        """The same state, which from now on appends in place. Longer states of the same text must no longer be used."""
        for layer in self._key_values():
            layer.reclaim()
        return self

    def reserve(self, capacity: int) -> AttentionState:
        """The same state with memory for `capacity` tokens, so that a long text is not copied again and again as it grows."""
        return AttentionState(tuple(layer.reserve(capacity) if isinstance(layer, KeyValue) else layer for layer in self.layers))

    def _key_values(self) -> Iterator[KeyValue]:
        return (layer for layer in self.layers if isinstance(layer, KeyValue))

    @staticmethod
    def empty(depth: int) -> AttentionState:
        return AttentionState(tuple(KeyValue() for _ in range(depth)))


def zeros(layers: int, batch: int, width: int, like: Tensor) -> Tensor:
    return torch.zeros(layers, batch, width, dtype=like.dtype, device=like.device)
