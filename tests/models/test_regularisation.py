"""Regularisation of recurrent language models: each mask is recomputed by hand, from the same draws."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from shares import half
from small_models import randomise
from tiny_runs import assert_stopping_changes_nothing, tiny
from tolerance import assert_equal
from torch import Tensor, nn

from firth.api import compose
from firth.api.recipe import Recipe
from firth.errors import ConfigError
from firth.models import RecurrentConfig, RecurrentLM, language_model, parameters

VOCAB, B, T, WIDTH = 13, 3, 8, 6
KINDS = ("rnn", "lstm", "gru")
RATES: dict[str, float] = {
    "dropout_input": 0.3,
    "dropout_hidden": 0.4,
    "dropout_output": 0.5,
    "dropout_word": 0.2,
    "dropout_weight": 0.6,
}


def made(**options: Any) -> RecurrentLM:
    model = language_model(RecurrentConfig(**({"kind": "lstm", "width": WIDTH, "depth": 2} | options)), VOCAB)
    randomise(model)
    assert isinstance(model, RecurrentLM)
    return model.double()


def tokens() -> Tensor:
    return torch.randint(VOCAB, (B, T), generator=torch.Generator().manual_seed(1))


def drawing(run: Callable[[], Any]) -> Any:
    """`run()` with torch's own generator at a known place, and put back after it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return run()


def kept(*shape: int, rate: float) -> Tensor:
    """The masks of the papers: 0 with probability p, otherwise 1 / (1 − p); ones where nothing is to be drawn."""
    if not rate:
        return torch.ones(shape, dtype=torch.float64)
    return torch.empty(shape, dtype=torch.float64).bernoulli_(1 - rate) / (1 - rate)


def by_hand(model: RecurrentLM, token_BT: Tensor, rates: dict[str, float], locked: bool) -> Tensor:
    """The logits, with matrices that have lost rows and entries, through torch's own layers."""

    def masked(x_BTd: Tensor, rate: float) -> Tensor:
        if locked or not rate:
            return x_BTd * kept(B, 1, x_BTd.shape[-1], rate=rate)
        return x_BTd * torch.empty_like(x_BTd).bernoulli_(1 - rate) / (1 - rate)  # filled in the order of memory, T before B

    E_Ve = model.embedding.weight * kept(VOCAB, 1, rate=rates["dropout_word"])
    x = masked(E_Ve[token_BT], rates["dropout_input"])
    for level, holder in enumerate(model.recurrent.layers):
        if level:
            x = masked(x, rates["dropout_hidden"])
        layer = copy.deepcopy(holder)
        assert isinstance(layer, nn.RNNBase)
        U_gd = layer.get_parameter("weight_hh_l0")
        U_gd.data *= kept(*U_gd.shape, rate=rates["dropout_weight"])
        x = layer(x)[0]
    x = masked(x, rates["dropout_output"])
    if model.output is None:
        return x @ model.embedding.weight.T + model.output_bias
    return x @ model.output.weight.T + model.output.bias


PLACES = [*({name: RATES[name]} for name in RATES), RATES]


@pytest.mark.parametrize("rates", half(PLACES), ids=" ".join)
@pytest.mark.parametrize("locked", [False, True], ids=["each", "locked"])
def test_each_place_has_its_own_rate_and_mask(locked: bool, rates: dict[str, float]) -> None:
    for kind, tied in itertools.product(KINDS, (False, True)):
        model = made(kind=kind, tied=tied, dropout_locked=locked, **rates)
        logits = drawing(lambda model=model: model(tokens())[0])  # type: ignore[misc]
        all_rates = dict.fromkeys(RATES, 0.0) | rates
        truth = drawing(lambda model=model, all_rates=all_rates: by_hand(model, tokens(), all_rates, locked))  # type: ignore[misc]
        assert_equal(logits.detach(), truth.detach())
        assert (logits - model.eval()(tokens())[0]).abs().max() > 0.01, "something was dropped"


def test_a_place_without_a_rate_of_its_own_has_the_common_one() -> None:
    config = RecurrentConfig(kind="gru", depth=2, dropout=0.3)
    assert tuple(config.rates) == (0.3, 0.3, 0.3)
    assert dataclasses.replace(config, dropout_input=0.1).rates == (0.1, 0.3, 0.3)
    assert dataclasses.replace(config, dropout_hidden=0.0).rates == (0.3, 0.0, 0.3), "0 is a rate, too"
    assert dataclasses.replace(config, dropout_output=0.6).rates == (0.3, 0.3, 0.6)
    model, same = made(dropout=0.3), made(dropout_input=0.3, dropout_hidden=0.3, dropout_output=0.3)
    assert torch.equal(drawing(lambda: model(tokens())[0]), drawing(lambda: same(tokens())[0]))


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_alone_draws_what_torchs_dropout_draws_at_the_three_places(kind: str) -> None:
    """To the bit, and the generator stands where it stood then: runs that were made before the others existed resume."""
    model = made(kind=kind, dropout=0.3)

    def as_before() -> Tensor:
        x = F.dropout(model.embedding(tokens()), 0.3)
        x = model.recurrent.layers[0](x)[0]
        x = model.recurrent.layers[1](F.dropout(x, 0.3))[0]
        return model.readout(F.dropout(x, 0.3))

    drawn, truth = (drawing(lambda run=run: (run(), torch.rand(3))) for run in (lambda: model(tokens())[0], as_before))  # type: ignore[misc]
    assert all(torch.equal(one, other) for one, other in zip(drawn, truth, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_outside_training_the_model_is_the_one_without_them_and_draws_nothing(kind: str) -> None:
    model, plain = made(kind=kind, dropout_locked=True, **RATES).eval(), made(kind=kind).eval()
    logits, after = drawing(lambda: (model(tokens())[0], torch.rand(3)))
    assert torch.equal(logits, plain(tokens())[0])
    assert torch.equal(after, drawing(lambda: torch.rand(3)))


def test_they_add_no_weights_and_rename_none() -> None:
    config = RecurrentConfig(kind="lstm", width=WIDTH, depth=2)
    assert list(made(dropout_locked=True, **RATES).state_dict()) == list(made().state_dict())
    assert parameters(dataclasses.replace(config, dropout_locked=True, **RATES), VOCAB) == parameters(config, VOCAB)


def test_a_dropped_word_is_zero_at_all_its_places_and_can_still_be_predicted() -> None:
    model = made(tied=True, dropout_word=0.4)
    seen: list[Tensor] = []
    model.recurrent.register_forward_pre_hook(lambda module, given: seen.append(given[0].detach()))
    x_BTd = drawing(lambda: model.hidden(tokens())[0])
    dropped_V = drawing(lambda: kept(VOCAB, rate=0.4)) == 0
    gone_BT = (seen[0] == 0).all(-1)
    assert torch.equal(gone_BT, dropped_V[tokens()])
    assert 0 < gone_BT.sum() < gone_BT.numel()
    assert torch.equal(model.readout(x_BTd), F.linear(x_BTd, model.embedding.weight, model.output_bias))


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_reaches_the_matrix_itself_where_it_was_kept(kind: str) -> None:
    model = made(kind=kind, depth=1, dropout_weight=0.5)
    drawing(lambda: model(tokens())[0].square().sum().backward())
    U_gd = model.get_parameter("recurrent.layers.0.weight_hh_l0")
    mask_gd = drawing(lambda: kept(*U_gd.shape, rate=0.5))
    assert U_gd.grad is not None
    assert torch.equal(U_gd.grad != 0, mask_gd != 0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_fused_kernel_and_the_readable_cells_drop_the_same(kind: str) -> None:
    model = made(kind=kind, dropout_locked=True, **RATES)
    fused, cells = (drawing(lambda kernel=kernel: model.hidden(tokens(), kernel=kernel)[0]) for kernel in ("fused", "cells"))  # type: ignore[misc]
    assert_equal(cells.detach(), fused.detach())


@pytest.mark.parametrize("value", [-0.1, 1.0, float("nan")])
@pytest.mark.parametrize("name", RATES)
def test_a_rate_is_a_share(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"model.{name} is {value}; expected 0 ≤ {name} < 1"):
        RecurrentConfig(kind="gru", depth=2, **{name: value})  # type: ignore[arg-type]


def test_a_cell_without_hidden_weights_has_none_to_drop() -> None:
    with pytest.raises(ConfigError, match=r'model.dropout_weight acts on .* model.kind = "mingru" has none. Remove it.'):
        RecurrentConfig(kind="mingru", dropout_weight=0.5)


def test_dropout_between_levels_needs_two_of_them() -> None:
    with pytest.raises(ConfigError, match=r"model.dropout_hidden = 0.3 acts between layers, and model.depth is 1; remove it"):
        RecurrentConfig(kind="gru", dropout_hidden=0.3)
    assert RecurrentConfig(kind="gru", dropout_hidden=0.0, dropout=0.3).rates.hidden == 0.0


def recipe(kind: str, **training: Any) -> Recipe:
    given = tiny(kind, dropout=0.2, **training)
    return dataclasses.replace(given, model=dataclasses.replace(given.model, dropout_locked=True, **RATES))


def test_a_recipe_that_sets_them_is_read_as_it_was_written() -> None:
    settings = [f"model.{name}={value}" for name, value in RATES.items()]
    given = compose({"data": {"text": "abc"}, "model": {"kind": "lstm", "depth": 2}}, [*settings, "model.dropout_locked=true"])
    assert given.model == RecurrentConfig(kind="lstm", depth=2, dropout_locked=True, **RATES)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", half(KINDS))
def test_a_stopped_and_resumed_run_is_the_undisturbed_run_to_the_bit(kind: str, tmp_path: Path) -> None:
    given = recipe(kind, steps=8, carry=True, accumulate=2, evaluate_every=3)
    assert_stopping_changes_nothing(given, tmp_path, at=5)
