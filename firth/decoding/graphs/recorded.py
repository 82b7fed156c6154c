"""The states of a step that is recorded as a CUDA graph: which tensors it replaces, and how it goes on from them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from firth.layers.state import AttentionState, FixedKeyValue


def overwritten(state: Any) -> list[Tensor]:
    """The tensors of a fixed state that a step overwrites; keys and values are only appended to."""
    own = getattr(state, "own", None)  # an encoder–decoder's state has one of its own beside the source, which stays as it is
    if own is not None:
        return overwritten(own)
    if not isinstance(state, AttentionState):
        return list(state.tensors())
    assert state.length_B is not None
    rest = [tensor for layer in state.layers if not isinstance(layer, FixedKeyValue) for tensor in layer.tensors()]
    return [state.length_B, *rest]


def advance_in_place(state: Any, after: Any) -> None:
    """Overwrite a state with the one after a step."""
    for tensor, new in zip(state.tensors(), after.tensors(), strict=True):
        if tensor.data_ptr() != new.data_ptr():
            tensor.copy_(new)
