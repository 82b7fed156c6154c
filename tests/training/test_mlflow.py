"""Runs of MLflow in a database file, read with MLflow's own client."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import firth_process, recipe_file, stopping_at, tiny

from firth.api import train_recipe
from firth.api.recipe import Recipe
from firth.errors import Interrupted, RunError
from firth.training.folder import RunFolder
from firth.training.log import Log
from firth.training.log import read as read_log
from firth.training.loggers import mlflow as logger

if importlib.util.find_spec("mlflow") is None or importlib.util.find_spec("sqlalchemy") is None:
    pytest.skip("mlflow is not installed", allow_module_level=True)
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]  # of the packages that mlflow imports


def recipe(**training: Any) -> Recipe:
    return tiny(evaluate_every=2, log_to=("mlflow",), **training)


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once, since that takes seconds."""
    from mlflow import MlflowClient

    file = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(f"sqlite:///{file}").get_experiment_by_name("firth")
    return file


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(empty_database, tmp_path)
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)


def client() -> Any:
    from mlflow import MlflowClient

    return MlflowClient()


def runs() -> list[Any]:
    there = client()
    return list(there.search_runs([there.get_experiment_by_name("firth").experiment_id]))


def numbers(run_id: str, name: str) -> list[tuple[int, float]]:
    return sorted((one.step, one.value) for one in client().get_metric_history(run_id, name))


def expect_all_numbers(run_id: str, folder: Path) -> None:
    lines = read_log(folder / "log.jsonl")
    assert len(lines) == 6
    for name in ("loss", "rate", "tokens_per_second"):
        assert numbers(run_id, f"train/{name}") == [(line["step"], pytest.approx(line[name])) for line in lines]
    valid = [(line["step"], pytest.approx(line["valid"]["loss"])) for line in lines if "valid" in line]
    assert numbers(run_id, "valid/loss") == valid


def test_the_recipe_every_number_and_the_ending_are_logged(tmp_path: Path) -> None:
    train_recipe(recipe(), tmp_path / "my run")
    (one,) = runs()
    assert (one.info.run_name, one.info.status, one.data.tags["outcome"]) == ("my run", "FINISHED", "finished")
    assert {"model.kind": "gru", "training.steps": "6", "training.log_to": '["mlflow"]'}.items() <= one.data.params.items()
    expect_all_numbers(one.info.run_id, tmp_path / "my run")
    text = Path(client().download_artifacts(one.info.run_id, "recipe.toml")).read_text(encoding="utf-8")
    assert tomllib.loads(text) == tomllib.loads((tmp_path / "my run" / "recipe.toml").read_text(encoding="utf-8"))


def test_a_resumed_run_goes_on_and_repeats_no_step(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(Interrupted):
        train_recipe(recipe(steps=8), run, watcher=stopping_at(3))
    assert [one.info.status for one in runs()] == ["KILLED"]
    with Log(RunFolder(run), 3, ("mlflow",)) as log:  # a step that a killed process never saved
        log.write({"step": 4, "loss": -1.0})
    train_recipe(recipe(), run, resume=True)
    (one,) = runs()
    assert (one.info.status, one.data.tags["outcome"]) == ("FINISHED", "finished")
    assert [step for step, _ in numbers(one.info.run_id, "train/loss")] == [1, 2, 3, 4, 5, 6]
    assert (one.data.params["training.steps"], one.data.tags["training.steps"]) == ("8", "6")


def test_a_run_that_the_database_does_not_know_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Interrupted):
        train_recipe(recipe(), tmp_path / "run", watcher=stopping_at(3))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/other.db")
    with pytest.raises(RunError, match=r"other\.db has no run .* begun at sqlite:////.*/mlflow\.db\. Set MLFLOW_TRACKING_URI"):
        train_recipe(recipe(), tmp_path / "run", resume=True)


def test_a_long_text_of_the_recipe_is_cut_and_many_settings_are_sent_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(logger._AT_ONCE, "params", 10)
    train_recipe(tiny(text="a long text. " * 1000, log_to=("mlflow",)), tmp_path / "run")
    (one,) = runs()
    assert len(one.data.params["data.text"]) == 6000
    assert len(one.data.params) > 20


def test_a_server_that_is_down_for_a_while_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    real, calls = MlflowClient.log_batch, [0]

    def sometimes(self: Any, run_id: str, metrics: Any = (), **more: Any) -> None:
        calls[0] += bool(metrics)
        if metrics and calls[0] in (2, 3):
            raise MlflowException("no connection")
        real(self, run_id, metrics=metrics, **more)

    monkeypatch.setattr(MlflowClient, "log_batch", sometimes)
    with pytest.warns(UserWarning, match="MLflow cannot be reached and is tried again at each checkpoint: no connection") as told:
        train_recipe(recipe(checkpoint_every=3), tmp_path / "run")
    assert len([one for one in told if "cannot be reached" in str(one.message)]) == 1
    (one,) = runs()
    expect_all_numbers(one.info.run_id, tmp_path / "run")


def test_two_trainings_at_once_share_a_new_database(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").unlink()
    file = recipe_file(recipe(), tmp_path)
    processes = [firth_process("train", file, "--out", tmp_path / name) for name in ("a", "b")]
    with ThreadPoolExecutor() as pool:
        told = list(pool.map(lambda process: process.communicate(timeout=100), processes))
    assert [process.returncode for process in processes] == [0, 0], told
    assert sorted(one.info.run_name for one in runs()) == ["a", "b"]
