"""The running mean of the weights: what it is, and that it is what a run stands for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_runs import assert_identical, outcome, stopping_at, tiny, undisturbed, watching

from firth import files
from firth.api import load, train_recipe
from firth.api.training import train_into
from firth.errors import ConfigError, Interrupted
from firth.training.config import TrainingConfig
from firth.training.loop import Training
from firth.training.trainer import StepReport

SETTINGS = {"average": 0.8, "rate": 0.05, "steps": 14, "evaluate_every": 5, "checkpoint_every": 5}


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


def test_a_resumed_run_goes_on_with_its_mean_to_the_bit(tmp_path: Path) -> None:
    recipe = tiny("lstm", **SETTINGS)  # type: ignore[arg-type]
    expected = undisturbed(recipe, tmp_path / "whole")
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


@pytest.mark.parametrize("value", [-0.1, 1.0])
def test_a_decay_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(ConfigError, match=rf"training.average is {value}; expected 0 ≤ average < 1"):
        TrainingConfig(average=value)
