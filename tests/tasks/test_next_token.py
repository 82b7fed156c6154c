"""The loss of a language model is what one computes by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from firth.models import RecurrentConfig, TransformerConfig, language_model
from firth.models.initialise import initialise
from firth.tasks.next_token import next_token

VOCAB, B, T = 7, 2, 5


def model_of(config: Any) -> Any:
    model = language_model(config, VOCAB)
    initialise(model, torch.Generator().manual_seed(0))
    return model


def tokens(seed: int) -> Tensor:
    return torch.randint(VOCAB, (B, T), generator=torch.Generator().manual_seed(seed))


def by_hand(logits_BTV: Tensor, target_BT: Tensor) -> float:
    """The mean of −log softmax, one token at a time, in float64."""
    total = 0.0
    for b in range(B):
        for t in range(T):
            scores = logits_BTV[b, t].double().tolist()
            total -= scores[target_BT[b, t]] - math.log(sum(math.exp(s) for s in scores))
    return total / (B * T)


CONFIGS = [RecurrentConfig(kind="gru", width=8), TransformerConfig(kind="transformer", width=8, depth=1, heads=2, context=T)]


@pytest.mark.parametrize("config", CONFIGS, ids=["recurrent", "transformer"])
def test_the_loss_is_the_mean_negative_log_likelihood_in_nats(config: Any) -> None:
    model = model_of(config)
    loss, _ = next_token(model, tokens(1), tokens(2))
    assert loss.ndim == 0
    # A float32 log-softmax of a handful of logits: some roundings of a number near log 7.
    assert abs(loss.item() - by_hand(model(tokens(1))[0].detach(), tokens(2))) < 8 * torch.finfo(torch.float32).eps * 2


def test_a_model_that_knows_nothing_loses_the_log_of_the_vocabulary() -> None:
    model = model_of(RecurrentConfig(kind="rnn", width=8))
    nn.init.zeros_(model.output.weight)
    nn.init.zeros_(model.output.bias)
    assert next_token(model, tokens(1), tokens(2))[0].item() == pytest.approx(math.log(VOCAB), rel=1e-6)


def test_the_state_that_comes_back_is_the_models() -> None:
    model = model_of(RecurrentConfig(kind="lstm", width=8))
    _, state = next_token(model, tokens(1), tokens(2))
    _, truth = model(tokens(1))
    assert torch.equal(state.h_LBd, truth.h_LBd)
    first, _ = next_token(model, tokens(3), tokens(4), state)
    second, _ = next_token(model, tokens(3), tokens(4))
    assert first != second, "a carried state is read"


def test_in_bfloat16_the_softmax_is_still_float32() -> None:
    model = model_of(RecurrentConfig(kind="gru", width=8)).bfloat16()
    loss, _ = next_token(model, tokens(1), tokens(2))
    assert loss.dtype == torch.float32
    assert abs(loss.item() - by_hand(model(tokens(1))[0].detach(), tokens(2))) < 8 * torch.finfo(torch.float32).eps * 2
