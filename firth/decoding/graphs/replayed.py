"""A decoder that attends to a source, for beam search and decode(): on a GPU, its steps are replayed (captured.py).

Letters: R rows, T time, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from firth.decoding.graphs.captured import Captured, can_capture, lend
from firth.models import ConditionalDecoder


@dataclass(frozen=True, eq=False)
class _Begun:
    """The state after the first token, in memory of a fixed size."""

    inner: Any

    def select(self, rows: Tensor) -> _Begun:
        return _Begun(self.inner.select(rows))


class Replayed:
    """`model` for texts of at most `longest` tokens."""

    def __init__(self, model: ConditionalDecoder, longest: int) -> None:
        self.model, self.longest = model, longest
        self.captured: Captured | None = lend(model, self) if can_capture(model) else None

    @torch.inference_mode()
    def step(self, token_RT: Tensor, state: Any) -> tuple[Tensor, Any]:
        if self.captured is None:
            return self.model.step(token_RT, state)
        if not isinstance(state, _Begun):  # before the first token, the shapes of keys and values are not known
            logits_RTV, state = self.model.step(token_RT, state)
            return logits_RTV, _Begun(self.captured.fixed(state, self.longest))
        logits_RTV, inner = self.captured.step(token_RT, state.inner)
        return logits_RTV, replace(state, inner=inner)
