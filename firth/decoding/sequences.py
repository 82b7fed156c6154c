"""Greedy decoding and sampling for many texts at once, each until its own end.

Letters: B texts, R rows of the batch, A rows to choose tokens for, N tokens generated, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from firth.decoding.beam import Hypothesis, StepwiseModel
from firth.decoding.sample import DecodingConfig, forced, penalise, pick, random_numbers, without
from firth.layers.argmax import argmax

Choose = Callable[[Tensor, list[int]], Tensor]  # (logits_AV, text number of each row) → token_A
_COMPACT_BELOW = 0.75  # drop the finished rows when less than this fraction is unfinished


@torch.inference_mode()
def decode(
    model: StepwiseModel,
    state: Any,
    prompt_BT: Tensor,
    choose: Choose,
    *,
    limits: Sequence[int],
    end: int,
    repetition: float = 1.0,
    first: int | None = None,
    banned: Sequence[int] = (),
) -> list[Hypothesis]:
    """Continue each text with the tokens that `choose` returns, until `end` or until limits[b] tokens are generated. A
    `repetition` other than 1 penalises the tokens generated so far, and `banned` tokens are not chosen; log p is the model's own
    all the same. With `first`, every text begins with that token."""
    tokens: list[list[int]] = [[] for _ in limits]
    log_p = [0.0] * len(limits)
    texts = list(range(len(limits)))  # of each row; finished texts stay until there are many of them
    token_RT = prompt_BT
    past_RN = prompt_BT[:, :0]
    while any(_going(tokens[text], limits[text], end) for text in texts):
        logits_RTV, state = model.step(token_RT, state)
        logits_RV = logits_RTV[:, -1].float()
        if first is not None and not past_RN.shape[1]:
            logits_RV = forced(logits_RV, first)
        token_R = choose(without(penalise(logits_RV, past_RN, repetition), banned), texts)
        chosen_R = torch.log_softmax(logits_RV, -1).gather(1, token_R.unsqueeze(1)).squeeze(1)
        for text, token, value in zip(texts, token_R.tolist(), chosen_R.tolist(), strict=True):
            if _going(tokens[text], limits[text], end):
                tokens[text].append(token)
                log_p[text] += value
        past_RN = torch.cat((past_RN, token_R.unsqueeze(1)), dim=1)
        going = [row for row, text in enumerate(texts) if _going(tokens[text], limits[text], end)]
        if going and len(going) < _COMPACT_BELOW * len(texts):
            rows = torch.tensor(going, device=token_R.device)
            texts, token_R, state = [texts[row] for row in going], token_R[rows], state.select(rows)
            past_RN = past_RN[rows]
        token_RT = token_R.unsqueeze(1)
    return [
        Hypothesis(tuple(found), value, value, finished=bool(found) and found[-1] == end)
        for found, value in zip(tokens, log_p, strict=True)
    ]


def greedy(logits_AV: Tensor, texts: list[int]) -> Tensor:
    return argmax(logits_AV)


def sampling(config: DecodingConfig, numbers: Sequence[int]) -> Choose:
    """Sample from softmax(logits / temperature) within top_k, top_p and min_p. Each text has its own generator, seeded with the
    seed and the text's number, so the result does not depend on the other texts of the batch or on the device."""
    generators = [random_numbers(config.seed, number) for number in numbers]

    def choose(logits_AV: Tensor, texts: list[int]) -> Tensor:
        u_A = torch.tensor([generators[text].random() for text in texts], dtype=torch.float64)
        return pick(logits_AV, config, u_A.to(logits_AV.device) if logits_AV.is_cuda else u_A)

    return choose


def _going(tokens: list[int], limit: int, end: int) -> bool:
    return len(tokens) < limit and (not tokens or tokens[-1] != end)
