"""What loggers get, however a training begins and ends. Those of firth have tests of their own, with their packages."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import stopping_at, tiny, watching

from firth.api import compose, train_recipe
from firth.api.recipe import Recipe
from firth.config import to_table
from firth.errors import ConfigError, CorruptFile, Diverged, Interrupted, RunError
from firth.training import loggers
from firth.training.folder import RunFolder
from firth.training.log import Log
from firth.training.log import read as read_log
from firth.training.loggers import LOGGERS, LoggedRun, Logger
from firth.training.loop import Training
from firth.training.trainer import StepReport

CSV = Path(__file__).parent.parent / "ideas" / "logger.py"


class Heard(Logger):
    """Keeps what it hears."""

    kind = "heard"
    runs: list[Heard]
    fails_at_the_end = False

    def __init__(self, run: LoggedRun) -> None:
        self.run, self.recipe, self.known = run, run.recipe, dict(run.known("heard"))
        self.lines: list[Mapping[str, Any]] = []
        self.outcome = ""
        self.runs.append(self)
        run.remember("heard", id=f"run-{len(self.runs)}", name=run.name)

    def write(self, line: Mapping[str, Any]) -> None:
        self.lines.append(line)

    def close(self, outcome: str) -> None:
        self.outcome = outcome
        if self.fails_at_the_end:
            raise RunError("the line is dead")


class Refuses(Heard):
    kind = "refuses"

    def __init__(self, run: LoggedRun) -> None:
        raise RunError("no such server")


@pytest.fixture(autouse=True)
def heard(monkeypatch: pytest.MonkeyPatch) -> list[Heard]:
    monkeypatch.setattr(LOGGERS, "_of", {**LOGGERS._of, "heard": Heard, "refuses": Refuses})
    Heard.runs = []
    Heard.fails_at_the_end = False
    return Heard.runs


def recipe(*log_to: str, **training: Any) -> Recipe:
    return tiny(evaluate_every=2, log_to=log_to or ("heard",), **training)


def test_a_logger_gets_the_recipe_every_line_of_the_log_and_the_ending(tmp_path: Path, heard: list[Heard]) -> None:
    run = train_recipe(recipe(), tmp_path / "my run")
    (one,) = heard
    assert one.recipe == to_table(run.recipe)
    assert one.run.name == "my run"
    assert [line["step"] for line in one.lines] == [1, 2, 3, 4, 5, 6]
    assert one.lines == read_log(tmp_path / "my run" / "log.jsonl")
    assert one.outcome == "finished"


def test_an_interrupted_run_goes_on_under_the_name_that_it_had(tmp_path: Path, heard: list[Heard]) -> None:
    with pytest.raises(Interrupted):
        train_recipe(recipe(), tmp_path / "run", watcher=stopping_at(3))
    train_recipe(recipe(), tmp_path / "run", resume=True)
    first, second = heard
    assert (first.outcome, second.outcome) == ("interrupted", "finished")
    assert (first.known, second.known) == ({}, {"id": "run-1", "name": "run"})
    assert (second.run.step, second.run.logged) == (3, 3)
    assert [line["step"] for line in second.lines] == [4, 5, 6]


def test_a_killed_run_says_which_steps_it_repeats(tmp_path: Path, heard: list[Heard]) -> None:
    with pytest.raises(Interrupted):
        train_recipe(recipe(), tmp_path / "run", watcher=stopping_at(3))
    with Log(RunFolder(tmp_path / "run"), 3) as log:  # steps that it never saved
        for step in (4, 5):
            log.write({"step": step, "loss": 1.0})
    train_recipe(recipe(), tmp_path / "run", resume=True)
    assert (heard[1].run.step, heard[1].run.logged) == (3, 5)


def test_a_diverged_and_a_failed_training_say_so(tmp_path: Path, heard: list[Heard]) -> None:
    with pytest.raises(Diverged):
        train_recipe(recipe(rate=1e30, clip=0.0), tmp_path / "a")

    def fail(training: Training, seen: StepReport) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train_recipe(recipe(), tmp_path / "b", watcher=watching(fail))
    assert [one.outcome for one in heard] == ["diverged", "failed"]


def test_a_finished_run_is_not_logged_again(tmp_path: Path, heard: list[Heard]) -> None:
    train_recipe(recipe(), tmp_path / "run")
    train_recipe(recipe(), tmp_path / "run", resume=True)
    assert len(heard) == 1


def test_an_overwritten_run_is_another_one(tmp_path: Path, heard: list[Heard]) -> None:
    train_recipe(recipe(), tmp_path / "run")
    train_recipe(recipe(), tmp_path / "run", overwrite=True)
    assert [one.known for one in heard] == [{}, {}]


def test_a_logger_that_cannot_begin_ends_the_others(tmp_path: Path, heard: list[Heard]) -> None:
    with pytest.raises(RunError, match="no such server"):
        train_recipe(recipe("heard", "refuses"), tmp_path / "run")
    assert [(one.lines, one.outcome) for one in heard] == [([], "failed")]


def test_a_training_that_is_finished_stays_so_if_a_logger_cannot_be_closed(tmp_path: Path, heard: list[Heard]) -> None:
    Heard.fails_at_the_end = True
    with pytest.warns(UserWarning, match="heard could not be closed: the line is dead"):
        run = train_recipe(recipe(), tmp_path / "run")
    assert run.path is not None
    assert RunFolder(run.path).model.is_file()


def test_damaged_names_are_refused_with_their_file(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train_recipe(recipe(), tmp_path / "run", watcher=stopping_at(3))
    for text in ('{"heard": ', "[]", '{"heard": 3}', '{"heard": {"id": 3}}'):
        (tmp_path / "run" / "loggers.json").write_text(text, encoding="utf-8")
        with pytest.raises(CorruptFile, match=r"loggers\.json is damaged\. Remove it"):
            train_recipe(recipe(), tmp_path / "run", resume=True)


@pytest.mark.parametrize("kind", LOGGERS.shipped_kinds)
def test_a_missing_package_is_refused_before_anything_is_written(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = LOGGERS[kind].package
    monkeypatch.setitem(loggers.importlib.util.sys.modules, package, None)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=rf'training\.log_to names "{kind}", but .* run `pip install {package}`, or remove'):
        train_recipe(recipe(kind), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_is_not_taken_for_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "not_a_package").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(Heard, "package", "not_a_package")
    with pytest.raises(ConfigError, match=r"not_a_package is not installed"):
        train_recipe(recipe(), tmp_path / "run")


TABLE = {"data": {"text": "a text to train on " * 20}, "model": {"kind": "gru", "width": 8}}


@pytest.mark.parametrize(("old", "new"), [(True, ("tensorboard",)), (False, ())])
def test_the_old_name_of_tensorboard_is_still_read(old: bool, new: tuple[str, ...]) -> None:
    with pytest.warns(UserWarning, match=r"training\.tensorboard is now called training\.log_to; the old name still works"):
        assert compose({**TABLE, "training": {"tensorboard": old}}).training.log_to == new


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["tensorbord"], r'expected a list of .*\. Did you mean "tensorboard"\?'),
        ("wandb", r'expected a list of .*\. Write \["wandb"\]\.'),
        (["csv"], r"One of your own needs its file: give that to firth\.use"),
        (["mlflow", "mlflow"], "expected each name once"),
    ],
)
def test_wrong_names_are_refused_with_advice(given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compose({**TABLE, "training": {"log_to": given}})


def test_a_logger_of_your_own_writes_each_step_once_and_its_run_asks_for_its_file(tmp_path: Path, use: Any) -> None:
    use(CSV)
    with pytest.raises(Interrupted):
        train_recipe(recipe("csv"), tmp_path / "run", watcher=stopping_at(3))
    train_recipe(recipe("csv"), tmp_path / "run", resume=True)
    with (tmp_path / "run" / "losses.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert [int(step) for step, _, _ in rows] == [1, 2, 3, 4, 5, 6]
    assert [bool(valid) for _, _, valid in rows] == [False, True] * 3
    assert (tmp_path / "run" / "recipe.toml").read_text(encoding="utf-8").count('"logger.py sha256:') == 1
