"""Generate text token by token with a cached state. Letters: B batch, T time, N tokens so far, V vocabulary."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from firth.decoding.captured import can_capture, captured, is_fixed, room_for
from firth.decoding.prefill import prefill
from firth.decoding.sample import DecodingConfig, penalise, pick, random_numbers
from firth.layers.state import AttentionState
from firth.models import LanguageModel

_DRAWN = 4096  # random numbers per text and block
_AHEAD = 32  # tokens that a GPU computes before they are read


def generate(model: LanguageModel, prompt_BT: Tensor, config: DecodingConfig) -> Iterator[Tensor]:
    """Yield token_B, `config.tokens` times, on the CPU. Tokens of the prompt, too, count as repeated."""
    tokens = _tokens(model, prompt_BT, config)
    if not prompt_BT.is_cuda:
        yield from tokens
        return
    count = 1
    while ahead := list(itertools.islice(tokens, count)):
        # Tokens are read in groups: reading one waits for it, and meanwhile the GPU would have nothing to do.
        yield from torch.stack(ahead).cpu()
        count = min(4 * count, _AHEAD)


def _tokens(model: LanguageModel, prompt_BT: Tensor, config: DecodingConfig) -> Iterator[Tensor]:
    endless, rows = EndlessText(model), len(prompt_BT)
    past_BN, token_BT, state = prompt_BT, prompt_BT, endless.start(rows)
    for u_B in _uniform(config, rows, prompt_BT.device):
        logits_B1V, state = endless.step(token_BT, state)
        token_B = pick(penalise(logits_B1V[:, -1], past_BN, config.repetition_penalty), config, u_B)
        yield token_B
        token_BT = token_B.unsqueeze(1)
        if config.repetition_penalty != 1:
            past_BN = torch.cat((past_BN, token_BT), dim=1)


def _uniform(config: DecodingConfig, rows: int, device: torch.device) -> Iterator[Tensor]:
    """u_B, the random numbers of one token after the other, drawn in blocks: a text may end long before `config.tokens`."""
    generators = [random_numbers(config.seed, row) for row in range(rows)]
    for start in range(0, config.tokens, _DRAWN):
        count = min(_DRAWN, config.tokens - start)
        if config.temperature == 0:
            u_NB = torch.zeros(count, rows, dtype=torch.float64)
        else:
            u_NB = torch.from_numpy(np.stack([generator.random(count) for generator in generators], axis=1))
        yield from u_NB.to(device) if device.type == "cuda" else u_NB


@dataclass(frozen=True, eq=False)
class Window:
    """A model's state, and the tokens that it was computed from where the context is bounded."""

    inner: Any
    held_BT: Tensor | None
    room: int = 0  # of a state of fixed size: its capacity

    def select(self, rows: Tensor) -> Window:
        return Window(self.inner.select(rows), None if self.held_BT is None else self.held_BT[rows], self.room)


class EndlessText:
    """A language model whose text may be longer than its context, and which computes the logits of the last token only.

    When a bounded context is full, the later half of its tokens is processed again from position 0, so each token is processed
    at most twice however long the text. On a GPU, steps of one token are replayed (captured.py)."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.captured = captured(model) if can_capture(model) else None

    def start(self, batch: int) -> Window:
        return Window(self.model.start(batch), None)

    def step(self, token_BT: Tensor, state: Window) -> tuple[Tensor, Window]:
        limit = self.model.context
        if limit is None:
            return self._advance(token_BT, state, None)
        if state.held_BT is None:
            token_BT = held_BT = token_BT[:, -limit:]
        else:
            held_BT = torch.cat((state.held_BT, token_BT), dim=1)
        if held_BT.shape[1] <= limit:
            return self._advance(token_BT, state, held_BT)
        held_BT = held_BT[:, -max(1, limit // 2) :]
        return self._advance(held_BT, Window(self.model.start(len(held_BT)), None, state.room), held_BT)

    @torch.inference_mode()
    def _advance(self, token_BT: Tensor, state: Window, held_BT: Tensor | None) -> tuple[Tensor, Window]:
        inner, room = state.inner, state.room
        if self.captured is not None and token_BT.shape[1] == 1 and _begun(inner):
            if held_BT is not None and (not is_fixed(inner) or held_BT.shape[1] > room):
                room = max(room, room_for(held_BT.shape[1], self.model.context))
            if not is_fixed(inner) or room > state.room:
                inner = self.captured.fixed(inner, max(1, room))
            logits_B1V, inner = self.captured.step(token_BT, inner)
            return logits_B1V, Window(inner, held_BT, room)
        x_B1d, inner = prefill(self.model, token_BT, inner)
        return self.model.readout(x_B1d), Window(inner, held_BT, room)


def _begun(state: Any) -> bool:
    """Whether a token has been processed: before, the shapes of keys and values are not known."""
    return not isinstance(state, AttentionState) or state.length_B is not None or state.length > 0
