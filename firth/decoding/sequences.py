"""Greedy decoding and sampling for many texts at once, each until its own end.

Letters: B texts, R rows of the batch, A rows to choose tokens for, N tokens generated, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from firth.decoding.beam import Hypothesis, StepwiseModel
from firth.decoding.config import DecodingConfig
from firth.decoding.sampling.choice import Chain
from firth.decoding.sampling.draw import forced, random_numbers, without
from firth.decoding.sampling.rows import Text

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
    generators = [random_numbers(config.seed, number) for number in numbers]
    written = [Text(config) for _ in limits]
    log_p = [0.0] * len(limits)
    texts = list(range(len(limits)))  # of each row; finished texts stay until there are many of them
    chain = Chain(written, prompt_BT.device)
    token_RT = prompt_BT
    while any(_going(written[text], limits[text], end) for text in texts):
        logits_RTV, state = model.step(token_RT, state)
        logits_RV = logits_RTV[:, -1].float()
        if first is not None and not written[texts[0]].tokens:
            logits_RV = forced(logits_RV, first)
        u_R = torch.tensor([generators[text].random() for text in texts] if config.draws else [], dtype=torch.float64)
        token_R, share_R = chain.choose(without(logits_RV, banned), u_R.to(logits_RV.device))
        chosen_R = torch.log_softmax(logits_RV, -1).gather(1, token_R.unsqueeze(1)).squeeze(1)
        shares = [1.0] * len(texts) if share_R is None else share_R.tolist()
        for text, token, share, value in zip(texts, token_R.tolist(), shares, chosen_R.tolist(), strict=True):
            if _going(written[text], limits[text], end):
                written[text].add(token, share)
                log_p[text] += value
        going = [row for row, text in enumerate(texts) if _going(written[text], limits[text], end)]
        if going and len(going) < _COMPACT_BELOW * len(texts):
            rows = torch.tensor(going, device=token_R.device)
            texts, token_R, state = [texts[row] for row in going], token_R[rows], state.select(rows)
            chain = Chain([written[text] for text in texts], prompt_BT.device)
        token_RT = token_R.unsqueeze(1)
    return [
        Hypothesis(tuple(text.tokens), value, value, finished=bool(text.tokens) and text.tokens[-1] == end)
        for text, value in zip(written, log_p, strict=True)
    ]


def _going(text: Text, limit: int, end: int) -> bool:
    return len(text.tokens) < limit and (not text.tokens or text.tokens[-1] != end)
