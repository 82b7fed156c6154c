"""Schedule-free AdamW is the authors' own, and its averaged weights are what a run stands for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import outcome, tiny
from torch import Tensor, nn

from firth.api import load
from firth.api.training import train_into
from firth.errors import ConfigError
from firth.training.config import TrainingConfig
from firth.training.optim import OPTIMIZERS, optimizer_for
from firth.training.schedule import rate_at

STEPS = 12
SETTINGS: dict[str, Any] = {
    "optimizer": "schedule-free",
    "schedule": "constant",
    "rate": 0.02,
    "betas": (0.8, 0.97),
    "weight_decay": 0.1,
    "warmup": 4,
    "steps": STEPS,
}


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)).double()


def gradients(model: nn.Module, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for weight in model.parameters():
        weight.grad = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)


def assert_alike(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one.detach(), other.detach(), rtol=1e-12, atol=0)


def test_weights_and_their_average_are_those_of_the_authors_optimiser() -> None:
    package = pytest.importorskip("schedulefree", reason="the authors' package is the oracle")
    config, ours, theirs = TrainingConfig(**SETTINGS), network(), network()
    optimizer = optimizer_for(ours, config)
    average = OPTIMIZERS["schedule-free"].average(ours, optimizer, config)
    assert average is not None
    groups = [
        {"params": [weight for weight in theirs.parameters() if weight.ndim > 1], "weight_decay": 0.1},
        {"params": [weight for weight in theirs.parameters() if weight.ndim == 1], "weight_decay": 0.0},
    ]
    oracle = package.AdamWScheduleFree(groups, lr=0.02, betas=(0.8, 0.97), warmup_steps=4)
    for step in range(STEPS):
        for model in (ours, theirs):
            gradients(model, step)
        for group in optimizer.param_groups:
            group["lr"] = rate_at(config, step)
        optimizer.step()
        oracle.train()
        oracle.step()
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert_alike(one, other)
        oracle.eval()
        with average.applied_to(ours):
            for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
                assert_alike(one, other)


def test_a_weight_without_a_gradient_stays_and_is_its_own_average() -> None:
    config, model = TrainingConfig(**SETTINGS), network()
    optimizer = optimizer_for(model, config)
    average = OPTIMIZERS["schedule-free"].average(model, optimizer, config)
    assert average is not None
    before = model[0].weight.detach().clone()  # type: ignore[index, union-attr]
    assert not average.weights
    gradients(model, 0)
    model[0].weight.grad = None  # type: ignore[index, union-attr]
    optimizer.step()
    assert torch.equal(model[0].weight, before)  # type: ignore[index, union-attr, arg-type]
    assert average.weights.keys() == {name for name, _ in model.named_parameters()} - {"0.weight"}


def test_the_weights_that_are_validated_and_saved_are_the_mean_of_z(tmp_path: Path) -> None:
    settings = SETTINGS | {"warmup": 0, "evaluate_every": 4}
    run = train_into(tiny("gru", **settings), tmp_path / "run")
    checkpoint = (left := outcome(run.path))["checkpoint"]
    saved = left["model"][0]
    for name, weight in saved.items():
        y, z = checkpoint[f"model/{name}"], checkpoint[f"optimizer/{name}/z"]
        assert torch.equal(weight, checkpoint[f"average/{name}"])
        torch.testing.assert_close(0.2 * z + 0.8 * weight, y, rtol=1e-5, atol=1e-7)
        assert not torch.equal(weight, y)
    assert load(run.path, "cpu").evaluate(streams=2)["loss"] == pytest.approx(left["log"][-1]["valid"]["loss"], rel=1e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"schedule": "cosine"}, 'training.schedule is "cosine", but training.optimizer = "schedule-free" replaces a decaying'),
        ({"schedule": "wsd"}, 'training.schedule is "wsd", but'),
        ({"betas": (0.0, 0.9)}, 'training.betas is (0.0, 0.9); expected a first number above 0 for optimizer = "schedule-free"'),
        ({"average": 0.9}, 'training.average is 0.9, but training.optimizer = "schedule-free" has an average of its own.'),
        ({"momentum": 0.9}, 'training.momentum only applies to training.optimizer = "sgd"; given "schedule-free".'),
    ],
)
def test_settings_that_contradict_it_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        TrainingConfig(**{**SETTINGS, **given})
