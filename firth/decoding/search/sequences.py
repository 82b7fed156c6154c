"""Greedy decoding and sampling for many texts at once, each until its own end.

Letters: B texts, R rows of the batch, A rows to choose tokens for, N tokens generated, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from firth.decoding.config import DecodingConfig
from firth.decoding.loop import Loop, StepwiseModel, TextRow
from firth.decoding.sampling.draw import forced, without
from firth.decoding.sampling.rows import TextSoFar
from firth.decoding.search.beam import Hypothesis

_COMPACT_BELOW = 0.75  # drop the finished rows when less than this fraction is unfinished


@torch.inference_mode()
def decode(
    model: StepwiseModel,
    state: Any,
    prompt_BT: Tensor,
    config: DecodingConfig,
    numbers: Sequence[int],
    *,
    limits: Sequence[int],
    end: int,
    first: int | None = None,
    banned: Sequence[int] = (),
) -> list[Hypothesis]:
    """Continue each text until `end` or until limits[b] tokens are generated: greedily at temperature 0, otherwise each with
    random numbers of its own, those of the seed and its number, so that the text does not depend on its batch or its device.

    Filters see the tokens generated so far, and `banned` tokens are not chosen; log p is the model's own all the same. With
    `first`, every text begins with that token."""
    writers = [TextRow.of(config, number) for number in numbers]
    loop, log_p = Loop(model, state, prompt_BT, writers), [0.0] * len(writers)
    place = {writer: n for n, writer in enumerate(writers)}
    going = [_going(writer.text, limit, end) for writer, limit in zip(writers, limits, strict=True)]
    while any(going[place[writer]] for writer in loop.rows):
        logits_RV = loop.logits().float()
        if first is not None and not loop.steps:
            logits_RV = forced(logits_RV, first)
        rows, chosen = loop.rows, loop.choose(logits_RV, without(logits_RV, banned)).read()
        for writer, token, value, share, _ in chosen.of(rows):
            n = place[writer]
            if going[n]:
                writer.text.add(token, share)
                log_p[n] += value
                going[n] = _going(writer.text, limits[n], end)
        left = [row for row, writer in enumerate(rows) if going[place[writer]]]
        if left and len(left) < _COMPACT_BELOW * len(rows):
            loop.keep(left)
    return [
        Hypothesis(tuple(text.tokens), value, value, finished=bool(text.tokens) and text.tokens[-1] == end)
        for text, value in zip((writer.text for writer in writers), log_p, strict=True)
    ]


def _going(text: TextSoFar, limit: int, end: int) -> bool:
    return len(text.tokens) < limit and (not text.tokens or text.tokens[-1] != end)
