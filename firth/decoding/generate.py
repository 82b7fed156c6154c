"""Generate text token by token with a cached state. Letters: B batch, T time, N tokens so far, V vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from firth.decoding.prefill import prefill
from firth.decoding.sample import DecodingConfig, penalise, pick
from firth.models import LanguageModel


def generate(model: LanguageModel, prompt_BT: Tensor, config: DecodingConfig) -> Iterator[Tensor]:
    """Yield token_B, `config.tokens` times. Tokens of the prompt, too, count as repeated."""
    generator = torch.Generator().manual_seed(config.seed)
    endless = EndlessText(model)
    past_BN, token_BT, state = prompt_BT, prompt_BT, endless.start(len(prompt_BT))
    for _ in range(config.tokens):
        logits_B1V, state = endless.step(token_BT, state)
        token_B = pick(penalise(logits_B1V[:, -1], past_BN, config.repetition_penalty), config, generator)
        yield token_B
        token_BT = token_B.unsqueeze(1)
        if config.repetition_penalty != 1:
            past_BN = torch.cat((past_BN, token_BT), dim=1)


@dataclass(frozen=True, eq=False)
class Window:
    """A model's state, and the tokens that it was computed from where the context is bounded."""

    inner: Any
    held_BT: Tensor | None

    def select(self, rows: Tensor) -> Window:
        return Window(self.inner.select(rows), None if self.held_BT is None else self.held_BT[rows])


class EndlessText:
    """A language model whose text may be longer than its context, and which computes the logits of the last token only.

    When a bounded context is full, the later half of its tokens is processed again from position 0, so each token is processed
    at most twice however long the text."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    def start(self, batch: int) -> Window:
        return Window(self.model.start(batch), None)

    def step(self, token_BT: Tensor, state: Window) -> tuple[Tensor, Window]:
        limit = self.model.context
        if limit is None:
            logits_B1V, inner = self._advance(token_BT, state.inner)
            return logits_B1V, Window(inner, None)
        if state.held_BT is None:
            token_BT = held_BT = token_BT[:, -limit:]
        else:
            held_BT = torch.cat((state.held_BT, token_BT), dim=1)
        if held_BT.shape[1] <= limit:
            logits_B1V, inner = self._advance(token_BT, state.inner)
        else:
            held_BT = held_BT[:, -max(1, limit // 2) :]
            logits_B1V, inner = self._advance(held_BT, self.model.start(len(held_BT)))
        return logits_B1V, Window(inner, held_BT)

    @torch.inference_mode()
    def _advance(self, token_BT: Tensor, state: Any) -> tuple[Tensor, Any]:
        x_B1d, state = prefill(self.model, token_BT, state)
        return self.model.readout(x_B1d), state
