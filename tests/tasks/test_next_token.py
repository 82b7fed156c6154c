"""The loss of a language model is what one computes by hand."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from firth.api import compose, train_recipe
from firth.errors import ConfigError
from firth.models import RecurrentConfig, TransformerConfig, language_model
from firth.models.embedding_config import SizedEmbeddingConfig
from firth.models.initialise import initialise
from firth.tasks.next_token import NextTokenConfig, next_token, penalised_next_token
from firth.training.config import TrainingConfig

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


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize(("alpha", "beta"), [(2.0, 0.0), (0.0, 1.0), (2.0, 1.0)])
def test_penalties_add_the_gradient_of_the_paper_s_and_leave_the_loss_as_it_is(
    tied: bool, dropout: float, alpha: float, beta: float
) -> None:
    """Merity et al. 2018, §4.6, as the authors compute it: means of squares, the first after dropout, the second before."""
    config = RecurrentConfig(kind="lstm", width=8, dropout=dropout, dropout_hidden=0.0, embedding=SizedEmbeddingConfig(width=6))
    model = model_of(replace(config, tied=tied)).double().train()
    token_BT, target_BT = tokens(0), tokens(1)

    def gradients(loss: Callable[[], Tensor]) -> tuple[float, dict[str, Tensor]]:
        torch.manual_seed(3)
        model.zero_grad()
        value = loss()
        value.backward()
        return value.item(), {name: weight.grad.clone() for name, weight in model.named_parameters()}

    def by_hand() -> Tensor:
        h_TBd: list[Tensor] = []
        handle = model.recurrent.register_forward_hook(lambda module, given, made: h_TBd.extend(made[0].unbind(1)))
        x_BTd, _ = model.hidden(token_BT)
        handle.remove()
        logits_BTV = model.readout(x_BTd)
        loss = nn.functional.cross_entropy(logits_BTV.flatten(0, 1), target_BT.flatten()) + alpha * x_BTd.pow(2).mean()
        return loss + beta * torch.stack([(b - a).pow(2).mean() for a, b in itertools.pairwise(h_TBd)]).mean()

    objective = NextTokenConfig(activation_penalty=alpha, temporal_penalty=beta)
    penalised = functools.partial(penalised_next_token, model, token_BT, target_BT, objective=objective)
    value, grads = gradients(lambda: penalised()[0])
    total, expected = gradients(by_hand)
    for name, gradient in expected.items():
        torch.testing.assert_close(grads[name], gradient, rtol=1e-5, atol=1e-8)  # penalties are in float32
    assert value == pytest.approx(gradients(lambda: next_token(model, token_BT, target_BT)[0])[0], rel=1e-12)
    assert value < total - 1e-3


def test_a_window_of_one_token_has_no_change_to_penalise() -> None:
    model = model_of(RecurrentConfig(kind="gru", width=8))
    one_B1 = tokens(0)[:, :1]
    loss, _ = penalised_next_token(model, one_B1, one_B1, objective=NextTokenConfig(temporal_penalty=1.0))
    assert loss.isfinite()


def test_a_recipe_trains_with_penalties_and_a_transformer_refuses_them(tmp_path: Path) -> None:
    table = {
        "data": {"text": "abcd" * 50},
        "objective": {"kind": "next-token", "activation_penalty": 2.0, "temporal_penalty": 1.0},
    }
    few = {"training": {"steps": 3, "context": 5, "batch": 2, "device": "cpu", "log_every": 1}}
    weights = []
    for given in (table, {**table, "objective": {"kind": "next-token"}}):
        train_recipe(compose({**given, **few, "model": {"kind": "gru", "width": 4}}), folder := tmp_path / str(len(weights)))
        weights.append(load_file(folder / "model.safetensors"))
    assert not torch.equal(weights[0]["embedding.weight"], weights[1]["embedding.weight"])
    with pytest.raises(ConfigError, match=r'objective\.activation_penalty is 2\.0, and only applies .* given "transformer"'):
        compose({**table, "model": {"kind": "transformer"}})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"context_deviation": 5.0}, "training.context_deviation is 5.0, which needs training.carry. Set it to true."),
        ({"context_deviation": 5.0, "carry": True, "compile": True}, "training.compile needs windows of one length"),
        ({"context_deviation": 128.0, "carry": True}, "training.context_deviation is 128.0; expected 0 or more, and less than"),
    ],
)
def test_windows_of_varying_length_are_refused_where_they_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        TrainingConfig(**given)
