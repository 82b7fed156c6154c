"""A loss that is no number stops the run, and names a checkpoint that is worth going back to."""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny_runs import assert_no_temporaries, recipe_file, steps_saved, tiny, watching

from firth import files
from firth.api import load, train_recipe
from firth.cli import main
from firth.errors import Diverged
from firth.training.loop import Training
from firth.training.trainer import StepReport


def poisoning(at: int, value: float) -> Callable[[Training, StepReport], None]:
    def poison(training: Training, seen: StepReport) -> None:
        if seen.step == at:
            with torch.no_grad():
                next(training.model.parameters())[:] = value

    return poison


def assert_sound(checkpoint: Path) -> None:
    tensors, _ = files.load_tensors(checkpoint)
    assert all(bool(tensor.isfinite().all()) for name, tensor in tensors.items() if not name.startswith("random/"))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_names_the_step_and_the_last_good_checkpoint(value: float, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(Diverged) as caught:
        train_recipe(tiny(checkpoint_every=2), run, watcher=watching(poisoning(3, value)))
    good = run / "checkpoints" / "step-00000002.safetensors"
    message = str(caught.value)
    assert re.match(r"the loss became nan with gradient norm nan at step 4; ", message)
    assert f"the last good checkpoint is {good}." in message
    assert "Try a smaller training.rate" in message
    assert caught.value.exit_code == 1
    assert steps_saved(run) == [2]
    assert_sound(good)
    load(run, "cpu")
    assert_no_temporaries(run)


def test_a_finite_loss_that_exploded_stops_the_run_with_both_numbers(tmp_path: Path) -> None:
    recipe = tiny(optimizer="sgd", clip=0.0, rate=1e8, schedule="constant", valid=0.0, steps=50)
    with pytest.raises(Diverged) as caught:
        train_recipe(recipe, tmp_path / "run")
    message = re.match(r"the loss exploded from (\S+) to (\S+) at step (\d+); no checkpoint", str(caught.value))
    assert message is not None, caught.value
    assert 1000 * float(message[1]) < float(message[2]) < math.inf
    assert str(caught.value).endswith("Try a smaller training.rate or training.clip")
    assert caught.value.exit_code == 1


def test_before_the_first_checkpoint_the_message_says_that_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(Diverged, match="at step 2; no checkpoint had been written yet"):
        train_recipe(tiny(), tmp_path / "run", watcher=watching(poisoning(1, math.nan)))


def test_weights_that_an_update_made_infinite_are_never_saved(tmp_path: Path) -> None:
    """The loss of that step is still finite; only the weights after it are not."""
    run = tmp_path / "run"
    recipe = tiny(
        optimizer="sgd", clip=0.0, rate=1e38, momentum=0.9, checkpoint_every=1, schedule="constant", valid=0.0, steps=50
    )
    with pytest.raises(Diverged, match=r"at step \d+; "):
        train_recipe(recipe, run)
    for step in steps_saved(run):
        assert_sound(run / "checkpoints" / f"step-{step:08d}.safetensors")


def test_an_infinite_weight_is_found_at_the_checkpoint_even_where_no_loss_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    real = torch.optim.AdamW.step

    def overflowing(self: torch.optim.AdamW) -> None:
        real(self)
        self.param_groups[0]["params"][0].data[0, 0] = math.inf if steps_saved(run) else 0.0

    monkeypatch.setattr(torch.optim.AdamW, "step", overflowing)
    with pytest.raises(Diverged, match=r"embedding\.weight is no longer finite at step 2; the last good checkpoint is .*0001"):
        train_recipe(tiny(checkpoint_every=1, valid=0.0), run)
    assert steps_saved(run) == [1]
    assert_sound(run / "model.safetensors")


def test_a_validation_loss_that_is_no_number_is_never_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from firth.api import training as api

    monkeypatch.setattr(api, "_metrics", lambda training, *_: {"loss": math.nan if training.step == 4 else 1.0})
    run = tmp_path / "run"
    with pytest.raises(Diverged, match=r"the validation loss became nan at step 4; the last good checkpoint is .*0002"):
        train_recipe(tiny(evaluate_every=2, checkpoint_every=2), run)
    assert files.load_tensors(run / "model.safetensors")[1]["step"] == "2"


def test_a_huge_rate_ends_firth_train_with_exit_code_1_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = recipe_file(tiny(rate=1e38, checkpoint_every=1, clip=0.0, steps=30), tmp_path)
    monkeypatch.setattr(sys, "argv", ["firth", "train", str(recipe), "--out", str(tmp_path / "run")])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main() puts its own there
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("training ")]
    assert len(said) == 1
    assert re.match(r"firth: .* at step \d+; (the last good checkpoint is|no checkpoint had been written)", said[0])
    for step in steps_saved(tmp_path / "run"):
        assert_sound(tmp_path / "run" / "checkpoints" / f"step-{step:08d}.safetensors")
