"""Averages of the weights: what they are, and that they are what a run stands for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from shares import half
from tiny_runs import assert_identical, outcome, stopping_at, tiny, undisturbed, watching

from firth import files
from firth.api import load, train_recipe
from firth.api.training import train_into
from firth.errors import ConfigError, Interrupted
from firth.training.average import TriggeredAverage
from firth.training.config import TrainingConfig
from firth.training.loop import Training
from firth.training.trainer import StepReport

SETTINGS = {"average": 0.8, "rate": 0.05, "steps": 14, "evaluate_every": 5, "checkpoint_every": 5}
TRIGGERED = {
    "optimizer": "nt-asgd",
    "rate": 10.0,
    "nonmonotone_interval": 0,
    "steps": 14,
    "evaluate_every": 2,
    "checkpoint_every": 5,
}


def followed(run: Path, **settings: object) -> list[dict[str, torch.Tensor]]:
    """The weights after each step."""
    seen: list[dict[str, torch.Tensor]] = []

    def note(training: Training, step: StepReport) -> None:
        seen.append({name: weight.detach().clone() for name, weight in training.model.named_parameters()})

    train_recipe(tiny("gru", **{**SETTINGS, **settings}), run, watcher=watching(note))  # type: ignore[arg-type]
    return seen


def test_the_mean_is_the_recursion_and_is_what_is_saved(tmp_path: Path) -> None:
    seen = followed(tmp_path / "run", valid=0.0, evaluate_every=0)
    first = followed(tmp_path / "one", valid=0.0, steps=1, evaluate_every=0, average=0.0, rate=1e-30)[0]
    mean = {name: weight.double() for name, weight in first.items()}
    for step, weights in enumerate(seen, 1):
        share = 1 - min(0.8, (1 + step) / (10 + step))
        mean = {name: a + share * (weights[name].double() - a) for name, a in mean.items()}
    saved, _ = files.load_tensors(tmp_path / "run" / "model.safetensors")
    for name, weight in mean.items():
        torch.testing.assert_close(saved[name].double(), weight, rtol=0, atol=1e-6)
        assert not torch.allclose(saved[name], seen[-1][name], atol=1e-5), name


def test_training_itself_is_not_changed(tmp_path: Path) -> None:
    with_mean, without = followed(tmp_path / "a"), followed(tmp_path / "b", average=0.0)
    for one, other in zip(with_mean, without, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_mean_is_what_is_validated(tmp_path: Path) -> None:
    run = train_recipe(tiny("gru", **{**SETTINGS, "evaluate_every": 0}), tmp_path / "run")  # type: ignore[arg-type]
    last = outcome(run.path)["log"][-1]["valid"]["loss"]
    assert load(run.path, "cpu").evaluate(streams=2)["loss"] == pytest.approx(last, rel=1e-6)


@pytest.mark.parametrize("settings", half([SETTINGS, TRIGGERED], 1))
def test_a_resumed_run_goes_on_with_its_mean_to_the_bit(settings: dict[str, Any], tmp_path: Path) -> None:
    recipe = tiny("gru", **settings)
    expected = undisturbed(recipe, tmp_path / "whole")
    assert expected["state"]["average"].get("count", 7) == 7  # after step 8
    for k in (4, 9):
        with pytest.raises(Interrupted):
            train_recipe(recipe, tmp_path / "parts", resume=True, watcher=stopping_at(k))
    train_recipe(recipe, tmp_path / "parts", resume=True)
    assert_identical(outcome(tmp_path / "parts"), expected)


def test_a_run_without_its_weights_is_read_from_a_checkpoints_mean(tmp_path: Path) -> None:
    run = train_into(tiny("gru", **{**SETTINGS, "evaluate_every": 0}), tmp_path / "run")  # type: ignore[arg-type]
    saved = load(run.path, "cpu").network.state_dict()
    run.model.unlink()
    again = load(run.path, "cpu").network.state_dict()
    assert all(torch.equal(saved[name], again[name]) for name in saved)


def falling_and_rising(seed: int) -> list[float]:
    return torch.rand(12, generator=torch.Generator().manual_seed(seed)).cumsum(0).sub(torch.arange(12) * 0.5).tolist()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("interval", [0, 1, 5])
def test_the_average_begins_at_the_validation_of_the_paper_s_algorithm(seed: int, interval: int) -> None:
    """Merity et al. 2018, algorithm 1, lines 5 to 12."""
    losses = falling_and_rising(seed)
    at = [t for t, v in enumerate(losses) if t > interval and v > min(losses[: t - interval])]
    average = TriggeredAverage(torch.nn.Linear(1, 1), interval)
    begun = []
    for loss in losses:
        average.validated(loss)
        begun.append(average.count > 0)
    assert begun == [bool(at) and t >= at[0] for t in range(12)]


def test_from_the_trigger_on_it_is_torch_s_averaged_sgd() -> None:
    """torch begins with the weights of step t0 + 2, and keeps the shares in float32."""
    torch.manual_seed(1)
    ours, theirs = (torch.nn.Linear(3, 2, dtype=torch.float64) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    sgd, average = torch.optim.SGD(ours.parameters(), lr=0.1), TriggeredAverage(ours, interval=0)
    oracle = torch.optim.ASGD(theirs.parameters(), lr=0.1, lambd=0.0, t0=2)
    for step, loss in enumerate([3.0, 2.0, 1.0, 1.5, 9.0, 0.5, 2.0, 0.1], start=1):  # the fourth is the first to rise
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        sgd.step()
        oracle.step()
        average.update(step)
        average.validated(loss)
        if step >= 4:
            with average.applied_to(ours):
                for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
                    torch.testing.assert_close(one.detach(), oracle.state[other]["ax"], rtol=1e-6, atol=1e-7)
        else:
            assert not average.weights


def test_the_triggered_average_is_what_is_validated_and_saved(tmp_path: Path) -> None:
    run = train_into(tiny("gru", **TRIGGERED), tmp_path / "run")  # type: ignore[arg-type]
    left = outcome(run.path)
    checkpoint, facts = left["checkpoint"], left["state"]["average"]
    assert 0 < facts["count"] < 14
    assert not torch.equal(checkpoint["model/embedding.weight"], checkpoint["average/embedding.weight"])
    last = left["log"][-1]["valid"]["loss"]
    run.model.unlink()  # the best weights: read the last ones
    assert load(run.path, "cpu").evaluate(streams=2)["loss"] == pytest.approx(last, rel=1e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"evaluate_every": 0},
            'training.optimizer = "nt-asgd" depends on the validation loss during training. Set training.eval',
        ),
        ({"average": 0.9}, 'training.average is 0.9, but training.optimizer = "nt-asgd" has an average of its own.'),
    ],
)
def test_settings_that_nt_asgd_cannot_have_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        TrainingConfig(**{**TRIGGERED, **given})


def test_nt_asgd_needs_held_out_data(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no data are held out. Set data\.valid"):
        train_recipe(tiny("gru", valid=0.0, **TRIGGERED), tmp_path / "run")  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("value", [-0.1, 1.0])
def test_a_decay_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(ConfigError, match=rf"training.average is {value}; expected 0 ≤ average < 1"):
        TrainingConfig(average=value)
