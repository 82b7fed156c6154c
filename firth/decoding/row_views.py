"""One row of a fixed state (see slots.py): read on in its place, copied, swapped, cleared. Letters as in layers/state.py."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from firth.layers.state import AttentionState, FixedKeyValue, KeyValue
from firth.models import LanguageModel


def opened(model: LanguageModel, state: Any, row: int, length: int) -> Any:
    """The first `length` tokens of a row as a growing state of one text, which appends its keys and values in the row's own
    memory. Other parts of a state, such as h, are copied; `close` brings them back."""
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
    """Bring a state that was `opened`, and has grown, back to its row."""
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


def empty(model: LanguageModel, state: Any, batch: int) -> Any:
    """A growing state before the first token, from which `put` can take every token."""
    start = model.start(batch)
    if not isinstance(state, AttentionState):
        return start
    pairs = zip(state.layers, start.layers, strict=True)
    return AttentionState(tuple(KeyValue() if isinstance(layer, FixedKeyValue) else first for layer, first in pairs))


def put(state: Any, row: int, grown: Any, number: int, length: int) -> None:
    """The first `length` tokens of text `number` of a growing state into a row; of what cannot be cut, all."""
    if not isinstance(state, AttentionState):
        for tensor, new in zip(state.tensors(), grown.tensors(), strict=True):
            tensor[row].copy_(new[number])
        return
    assert state.length_B is not None
    state.length_B[row] = length
    for layer, new in zip(state.layers, grown.layers, strict=True):
        if isinstance(layer, FixedKeyValue):
            for tensor, part in zip(layer.tensors(), new.held(), strict=True):
                tensor[row, :, :length].copy_(part[number, :, :length])
        else:
            for tensor, part in zip(layer.tensors(), new.tensors(), strict=True):
                tensor[row].copy_(part[number])


def copy(state: Any, source: int, target: int, length: int) -> None:
    """The first `length` tokens of one row into another; of what cannot be cut, all."""
    for old, new in zip(_parts(state, target, length), _parts(state, source, length), strict=True):
        old.copy_(new)


def swap(state: Any, left: int, right: int, length: int) -> None:
    """Exchange two rows of at most `length` tokens."""
    for one, other in zip(_parts(state, left, length), _parts(state, right, length), strict=True):
        kept = one.clone()
        one.copy_(other)
        other.copy_(kept)


def clear(state: Any, row: int) -> None:
    """Zeros, so that nothing that is not finite stays behind: 0 · NaN is NaN, even where a mask makes the weight 0."""
    for tensor in state.tensors():
        tensor[row].zero_()


def can_be_cut(state: Any) -> bool:
    """Whether a row contains the states after each of its tokens."""
    return isinstance(state, AttentionState) and all(isinstance(layer, FixedKeyValue) for layer in state.layers)


def _parts(state: Any, row: int, length: int) -> list[Tensor]:
    """The tensors of one row, keys and values of the first `length` tokens only."""
    if not isinstance(state, AttentionState):
        return [tensor[row] for tensor in state.tensors()]
    assert state.length_B is not None
    parts = [state.length_B[row]]
    for layer in state.layers:
        fixed = isinstance(layer, FixedKeyValue)
        parts += [tensor[row, :, :length] if fixed else tensor[row] for tensor in layer.tensors()]
    return parts
