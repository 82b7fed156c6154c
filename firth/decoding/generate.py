"""One token after another, reading each only once. Letters: B batch, T time, V vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from firth.decoding.sample import DecodingConfig, pick
from firth.models import LanguageModel


def generate(model: LanguageModel, prompt_BT: Tensor, config: DecodingConfig) -> Iterator[Tensor]:
    """Yield token_B, `config.tokens` times.

    A model with a bounded context slides: when it is full, the later half of what it holds is read again from position 0,
    so a text of any length costs at most two readings per token."""
    generator = torch.Generator().manual_seed(config.seed)
    limit = model.context
    held_BT = prompt_BT if limit is None else prompt_BT[:, -limit:]
    logits_BV, state = _read(model, held_BT, model.start(len(prompt_BT)))
    written: list[Tensor] = []  # since the tokens of held_BT
    for n in range(config.tokens):
        token_B = pick(logits_BV, config, generator)
        yield token_B
        if n + 1 == config.tokens:
            return
        written.append(token_B)
        if limit is not None and held_BT.shape[1] + len(written) > limit:
            held_BT = torch.cat((held_BT, torch.stack(written, dim=1)), dim=1)[:, -max(1, limit // 2) :]
            written.clear()
            logits_BV, state = _read(model, held_BT, model.start(len(prompt_BT)))
        else:
            logits_BV, state = _read(model, token_B.unsqueeze(1), state)


@torch.inference_mode()
def _read(model: LanguageModel, token_BT: Tensor, state: Any) -> tuple[Tensor, Any]:
    """Logits after the last of the tokens; the output layer sees that position only."""
    x_BTd, state = model.hidden(token_BT, state)
    return model.readout(x_BTd[:, -1:])[:, -1], state
