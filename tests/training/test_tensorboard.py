from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tiny_runs import stopping_at, tiny

from firth.api import train_recipe
from firth.api.recipe import Recipe
from firth.errors import ConfigError, Interrupted
from firth.training.folder import RunFolder
from firth.training.log import Log
from firth.training.log import read as read_log

RECIPE = tiny(evaluate_every=2, log_to=("tensorboard",))


def scalars(run: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    return {name: [(event.step, event.value) for event in events.Scalars(name)] for name in events.Tags()["scalars"]}


def logged(run: Path, name: str, group: str = "train") -> list[tuple[int, float]]:
    lines = read_log(run / "log.jsonl")
    tables = [(line["step"], line.get("valid", {}) if group == "valid" else line) for line in lines]
    return [(step, pytest.approx(table[name], rel=1e-6)) for step, table in tables if table.get(name) is not None]


def with_training(recipe: Recipe, **settings: object) -> Recipe:
    return dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, **settings))  # type: ignore[arg-type]


def test_tensorboard_has_every_number_of_the_log(tmp_path: Path) -> None:
    train_recipe(RECIPE, tmp_path / "run")
    written = scalars(tmp_path / "run")
    names = {"loss", "rate", "gradient_norm", "tokens", "tokens_per_second", "seconds"}
    measures = {"loss", "perplexity", "bits_per_character", "tokens"}
    assert written.keys() == {f"train/{name}" for name in names} | {f"valid/{name}" for name in measures}
    assert len(written["train/loss"]) == 6
    assert len(written["valid/loss"]) == 3
    for name in names:
        assert written[f"train/{name}"] == logged(tmp_path / "run", name)
    for name in measures:
        assert written[f"valid/{name}"] == logged(tmp_path / "run", name, "valid")


def test_after_a_resume_tensorboard_shows_each_step_once(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(Interrupted):
        train_recipe(RECIPE, run, watcher=stopping_at(3))
    with Log(RunFolder(run), 3, ("tensorboard",)) as log:  # a run that was killed after steps it never saved
        for step in (4, 5):
            log.write({"step": step, "loss": -1.0})
    train_recipe(RECIPE, run, resume=True)
    assert scalars(run)["train/loss"] == logged(run, "loss")
    assert [step for step, _ in scalars(run)["train/loss"]] == [1, 2, 3, 4, 5, 6]


def test_tensorboard_may_be_turned_on_when_a_run_is_resumed(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train_recipe(with_training(RECIPE, log_to=()), tmp_path / "run", watcher=stopping_at(3))
    assert not (tmp_path / "run" / "tensorboard").exists()
    train_recipe(RECIPE, tmp_path / "run", resume=True)
    assert [step for step, _ in scalars(tmp_path / "run")["train/loss"]] == [4, 5, 6]


def test_without_tensorboard_the_error_comes_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(
        ConfigError, match=r'training\.log_to names "tensorboard", but .* not installed; run `pip install tensorboard`, or remove'
    ):
        train_recipe(RECIPE, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_nothing_optional_is_imported_unless_asked_for() -> None:
    program = (
        "import sys, firth.api, firth.text, firth.training.log\n"
        "optional = ('tensorboard', 'wandb', 'mlflow', 'pyarrow', 'zstandard', 'triton', 'llvmlite')\n"
        "print([name for name in optional if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
