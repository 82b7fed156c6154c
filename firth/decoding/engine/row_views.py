"""Rows of a fixed state (see slots.py): read on in their place, copied, exchanged, cleared. Letters as in layers/state.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from firth.layers.state import AttentionState, FixedKeyValue, KeyValue, can_be_cut
from firth.models import LanguageModel


def opened(model: LanguageModel, state: Any, row: int, length: int) -> Any:
    """The first `length` tokens of a row as a growing state of one text, which appends its keys and values in the row's own
    memory. Other parts of a state, such as h, are copied; `close` writes them back."""
    if not isinstance(state, AttentionState):
        return state.of([tensor[row : row + 1].clone() for tensor in state.tensors()]) if length else model.start(1)
    layers = []
    for layer, empty in zip(state.layers, model.start(1).layers, strict=True):
        if isinstance(layer, FixedKeyValue):
            layers.append(KeyValue.within(layer.k_BGCD[row : row + 1], layer.v_BGCE[row : row + 1], length))
        elif length:
            layers.append(layer.of([tensor[row : row + 1].clone() for tensor in layer.tensors()]).at(length))
        else:
            layers.append(empty)
    return AttentionState(tuple(layers))


def close(state: Any, row: int, grown: Any) -> None:
    """Write a state that was `opened` and has grown back to its row."""
    if not isinstance(state, AttentionState):
        for tensor, new in zip(state.tensors(), grown.tensors(), strict=True):
            tensor[row].copy_(new[0])
        return
    assert state.length_B is not None
    state.length_B[row] = grown.length
    for layer, new in zip(state.layers, grown.layers, strict=True):
        if not isinstance(layer, FixedKeyValue):
            for tensor, part in zip(layer.tensors(), new.tensors(), strict=True):
                tensor[row].copy_(part[0])


def several(state: Any, first: int, lengths: Sequence[int]) -> Any:
    """A state of several rows, from `first` on, with a length for each; it appends in the rows' own memory."""
    tensors = [tensor[first : first + len(lengths)] for tensor in state.tensors()]
    view = state.of(tensors)
    if isinstance(state, AttentionState):
        assert view.length_B is not None
        view.length_B.copy_(torch.tensor(lengths))
    if not can_be_cut(state):
        for n, length in enumerate(lengths):
            if not length:
                clear(state, first + n)
    return view


def copy(state: Any, source: int, target: int, length: int) -> None:
    """Copy the first `length` tokens of one row to another; states without a time axis are copied whole."""
    for tensor in _parts(state, length):
        tensor[target].copy_(tensor[source])


def exchange(state: Any, left: Sequence[int], right: Sequence[int], length: int) -> None:
    """Exchange left[i] and right[i] for every i; of keys and values, only those of the first `length` tokens."""
    parts = _parts(state, length)
    targets, sources = (torch.tensor(rows, device=parts[0].device) for rows in ([*left, *right], [*right, *left]))
    for tensor in parts:
        tensor[targets] = tensor[sources]


def clear(state: Any, row: int) -> None:
    """Fill with zeros, so that no NaN remains: 0 · NaN is NaN, even where a mask makes the weight 0."""
    for tensor in state.tensors():
        tensor[row].zero_()


def _parts(state: Any, length: int) -> list[Tensor]:
    """The tensors of all rows, keys and values of the first `length` tokens only."""
    if not isinstance(state, AttentionState):
        return list(state.tensors())
    assert state.length_B is not None
    parts = [state.length_B]
    for layer in state.layers:
        fixed = isinstance(layer, FixedKeyValue)
        parts += [tensor[:, :, :length] if fixed else tensor for tensor in layer.tensors()]
    return parts
