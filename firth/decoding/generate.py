"""Generate text token by token with a cached state. Letters: B batch, T time, V vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from firth.decoding.sample import DecodingConfig, pick
from firth.models import LanguageModel


def generate(model: LanguageModel, prompt_BT: Tensor, config: DecodingConfig) -> Iterator[Tensor]:
    """Yield token_B, `config.tokens` times.

    When a bounded context is full, the later half of its tokens is processed again from position 0, so each token is processed
    at most twice however long the text."""
    generator = torch.Generator().manual_seed(config.seed)
    limit = model.context
    held_BT = prompt_BT if limit is None else prompt_BT[:, -limit:]
    logits_BV, state = _advance(model, held_BT, model.start(len(prompt_BT)))
    generated: list[Tensor] = []  # after the tokens of held_BT
    for n in range(config.tokens):
        token_B = pick(logits_BV, config, generator)
        yield token_B
        if n + 1 == config.tokens:
            return
        generated.append(token_B)
        if limit is not None and held_BT.shape[1] + len(generated) > limit:
            held_BT = torch.cat((held_BT, torch.stack(generated, dim=1)), dim=1)[:, -max(1, limit // 2) :]
            generated.clear()
            logits_BV, state = _advance(model, held_BT, model.start(len(prompt_BT)))
        else:
            logits_BV, state = _advance(model, token_B.unsqueeze(1), state)


@torch.inference_mode()
def _advance(model: LanguageModel, token_BT: Tensor, state: Any) -> tuple[Tensor, Any]:
    """Logits after the last token, and the new state; the output layer computes only that position."""
    x_BTd, state = model.hidden(token_BT, state)
    return model.readout(x_BTd[:, -1:])[:, -1], state
