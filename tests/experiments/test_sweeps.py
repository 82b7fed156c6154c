"""Sweeps: their trials are runs as `firth train` makes them, and an interrupted one goes on."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from reviews import classifier_table
from reviews import write as write_reviews
from shell import Firth
from sweeping import here, swept, table
from tiny_runs import steps_saved, stopping_at

import firth
from firth.api import Recipe, Watcher
from firth.errors import ConfigError, FirthError, Interrupted, RunError
from firth.experiments.sweeps import SamplerName, trial
from firth.experiments.sweeps.report import SweepReport
from firth.training import log
from firth.training.folder import RunFolder, held

__all__ = ["here"]
pytestmark = pytest.mark.usefixtures("here")

WIDTHS = {"model.width": [4, 8]}
RATES = {"training.rate": "log:1e-3:1e-1"}


def losses(run: Path) -> dict[int, float]:
    """The validation losses of a run by their steps."""
    return {line["step"]: line["valid"]["loss"] for line in log.read(RunFolder(run).log) if "valid" in line}


def told(report: SweepReport) -> list[Any]:
    return [(one.number, one.ending, one.value, one.settings, one.steps) for one in report.trials]


def test_a_trial_is_the_run_that_train_makes(tmp_path: Path) -> None:
    report = swept(tmp_path / "sweep", WIDTHS | RATES, trials=2)
    for one in report.trials:
        changes = {"model": {"width": one.settings["model.width"]}, "training": {"rate": one.settings["training.rate"]}}
        alone = firth.train(table(), tmp_path / f"alone{one.number}", progress=False, **changes)  # type: ignore[arg-type]
        assert alone.path is not None
        assert one.value == min(losses(alone.path).values())
        assert losses(one.run) == losses(alone.path)
    assert report.best is min(report.trials, key=lambda one: one.value or 0)
    assert report.study.best_trial.number == report.best.number


def test_a_metric_of_which_more_is_better_is_maximised_and_selects_the_weights(tmp_path: Path) -> None:
    recipe = classifier_table(write_reviews(tmp_path / "reviews.csv"), steps=6, evaluate_every=2)
    report = swept(tmp_path / "sweep", {"training.rate": [1e-6, 0.1]}, recipe, metric="accuracy")
    assert report.best is max(report.trials, key=lambda one: one.value or 0)
    assert report.best.value == report.study.best_value
    for one in report.trials:
        lines = log.read(RunFolder(one.run).log)
        assert one.value == max(line["valid"]["accuracy"] for line in lines if "valid" in line)
        assert firth.load(one.run).recipe.training.select == "accuracy"
    assert report.trials[0].value != report.trials[1].value


def test_a_grid_has_every_combination_once(tmp_path: Path) -> None:
    report = swept(tmp_path, WIDTHS | {"training.batch": "1:2", "training.betas": [[0.9, 0.9], [0.9, 0.99]]}, sampler="grid")
    assert len(report.trials) == 8
    combinations = {tuple(map(str, one.settings.values())) for one in report.trials}
    assert combinations == {(w, b, c) for w in ("4", "8") for b in ("1", "2") for c in ("[0.9, 0.9]", "[0.9, 0.99]")}


def stopped_in_call(number: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sends a signal in that training, so that it stops after step 3; the runs that were trained are listed."""
    train_into, calls = trial.train_into, []

    def watched(recipe: Recipe, out: Path, *, resume: bool, watcher: Watcher) -> RunFolder:
        calls.append(out.name)
        if len(calls) == number:
            stop, step = stopping_at(3), watcher.step
            watcher = dataclasses.replace(watcher, begin=stop.begin, step=lambda seen: (step(seen), stop.step(seen)))
        return train_into(recipe, out, resume=resume, watcher=watcher)

    monkeypatch.setattr(trial, "train_into", watched)
    return calls


@pytest.mark.parametrize("sampler", ["tpe", *(pytest.param(one, marks=pytest.mark.long) for one in ("qmc", "random", "gp"))])
def test_an_interrupted_sweep_has_the_trials_of_one_that_was_not(
    sampler: SamplerName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = swept(tmp_path / "whole", WIDTHS | RATES, trials=3, sampler=sampler, seed=5)
    calls = stopped_in_call(2, monkeypatch)
    with pytest.raises(Interrupted):
        swept(tmp_path / "half", WIDTHS | RATES, trials=3, sampler=sampler, seed=5)
    assert steps_saved(tmp_path / "half/runs/trial-001") == [3]
    resumed = swept(tmp_path / "half", WIDTHS | RATES, trials=3, sampler=sampler, seed=5, resume=True)
    assert told(resumed) == told(whole)
    assert len({one.settings["training.rate"] for one in whole.trials}) == 3
    assert calls == ["trial-000", "trial-001", "trial-001", "trial-002"]
    assert {one.number: one.intermediate_values for one in resumed.study.trials} == {
        one.number: one.intermediate_values for one in whole.study.trials
    }


def test_a_finished_sweep_is_read_and_a_longer_one_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = swept(tmp_path, WIDTHS | RATES, trials=2)
    calls = stopped_in_call(0, monkeypatch)
    assert told(swept(tmp_path, WIDTHS | RATES, trials=2, resume=True)) == told(first)
    assert calls == []
    longer = swept(tmp_path, WIDTHS | RATES, trials=3, resume=True)
    assert calls == ["trial-002"]
    assert told(longer)[:2] == told(first)


def test_what_a_crash_left_in_the_storage_is_removed(tmp_path: Path) -> None:
    first = swept(tmp_path, WIDTHS | RATES, trials=2)
    journal = tmp_path / "trials.journal"
    with journal.open("a") as file:
        file.write('{"op_code":4,"wor')
    (tmp_path / "trials.journal.lock").touch()
    assert told(swept(tmp_path, WIDTHS | RATES, trials=3, resume=True))[:2] == told(first)
    assert all(json.loads(line) for line in journal.read_text().splitlines())
    journal.write_text("no JSON\n{}\n")
    with pytest.raises(RunError, match=r"trials\.journal is damaged"):
        swept(tmp_path, WIDTHS | RATES, trials=3, resume=True)


def test_another_sweep_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    swept(tmp_path, WIDTHS | RATES, trials=2)
    before = (tmp_path / "trials.journal").read_bytes()
    cases: list[tuple[str, Any, Any]] = [
        ("Add resume=True to continue it", WIDTHS | RATES, {"resume": False}),
        ("model.width = 4,8; now it is 4,16", {"model.width": [4, 16]} | RATES, {}),
        ("training.rate = log:1e-3:1e-1; now it is not set", WIDTHS, {"trials": 2}),
        ("sampler = tpe; now it is random", WIDTHS | RATES, {"sampler": "random"}),
        ("seed = 0; now it is 1", WIDTHS | RATES, {"seed": 1}),
        ("prune = False; now it is True", WIDTHS | RATES, {"prune": True}),
        ("training.batch = 2; now it is 3", WIDTHS | RATES, {"changes": {"training.batch": 3}}),
        ("trials is 1, but .* already has 2. Ask for 2 or more", WIDTHS | RATES, {"trials": 1}),
    ]
    for message, settings, more in cases:
        with pytest.raises((ConfigError, RunError), match=message):
            swept(tmp_path, settings, **{"trials": 2, "resume": True} | more)
    assert (tmp_path / "trials.journal").read_bytes() == before


def test_a_folder_of_something_else_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(RunError, match="already exists"):
        swept(tmp_path, WIDTHS)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_trials_worse_than_the_median_are_pruned(tmp_path: Path) -> None:
    """MedianPruner, spelt out: from the sixth trial on, the best validation so far is compared with the median at that step."""
    report = swept(tmp_path, {"training.rate": "log:1e-5:1e-1"}, trials=9, sampler="random", prune=True)
    finished: list[dict[int, float]] = []
    for one in report.trials:
        seen = losses(one.run)
        worse = [
            step
            for step in (2, 4)
            if len(finished) >= 5
            and step in seen
            and min(loss for at, loss in seen.items() if at <= step) > statistics.median(other[step] for other in finished)
        ]
        assert one.ending == ("pruned" if worse else "finished")
        assert one.steps == (worse[0] if worse else 6)
        assert (one.value is None) == bool(worse)
        finished += [] if worse else [seen]
    assert {one.ending for one in report.trials} == {"pruned", "finished"}
    assert report.latex().count("pruned") == [one.ending for one in report.trials].count("pruned")
    statuses = {record.name: record.value("status") for record in firth.runs(tmp_path, progress=False)}
    assert statuses == {str(one.run): one.ending for one in report.trials}


def test_a_trial_that_diverges_or_cannot_be_built_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    recipe = table() | {"model": {"kind": "transformer", "width": 8, "depth": 1, "heads": 2}}
    settings = {"model.attention.heads": [2, 3], "model.width": [8, 12], "training.rate": [1e-3, 1e30]}
    report = swept(tmp_path, settings, recipe, sampler="grid")
    for one in report.trials:
        heads, width, rate = one.settings.values()
        expected = "failed" if width % heads else "diverged" if rate > 1 else "finished"
        assert one.ending == expected, one
        assert bool(one.reason) == (expected != "finished")
        assert (one.run / "recipe.toml").exists() == (expected != "failed")
    assert "Trial" in report.text()
    assert "does not divide" in report.text()


def test_an_error_of_the_first_trial_ends_the_sweep_and_counts_for_nothing(tmp_path: Path) -> None:
    recipe = table() | {"data": {"path": str(tmp_path / "later.txt"), "valid": 0.2}}
    with pytest.raises(FirthError, match=r"trial 0 \(model\.width = \d\): .*later\.txt"):
        swept(tmp_path / "sweep", WIDTHS, recipe)
    (tmp_path / "later.txt").write_text(table()["data"]["text"])
    report = swept(tmp_path / "sweep", WIDTHS, recipe, resume=True)
    assert [(one.number, one.ending) for one in report.trials] == [(0, "finished"), (1, "finished")]


def test_data_without_a_held_out_part_are_refused_before_the_first_step(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no data are held out"):
        swept(tmp_path, WIDTHS, table(valid=0.0, evaluate_every=0))
    assert not list(tmp_path.glob("runs/*/log.jsonl"))


def test_only_validation_data_are_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: Any, **more: Any) -> None:
        raise AssertionError("a sweep evaluates a run")

    monkeypatch.setattr(firth.Run, "evaluate", refused)
    monkeypatch.setattr("firth.api.loading.load", refused)
    assert swept(tmp_path, WIDTHS).best


def test_settings_of_the_tokenizer_get_a_note(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"tokenizer\.start differs between trials"):
        swept(tmp_path, {"tokenizer.start": [True, False]})


def test_the_verb_prints_and_saves_what_the_report_says(tmp_path: Path, firth: Firth) -> None:
    (tmp_path / "tiny.toml").write_text(tomli_w.dumps(table()))
    command = ("sweep", tmp_path / "tiny.toml", "--set", "model.width=4,8", "--range", "training.rate=log:1e-3:1e-1")
    command += ("--out", tmp_path / "out", "--trials", 3, "--training.steps=4")
    answer = firth(*command)
    assert answer.code == 0, answer.err
    assert "3/3 trial 2: model.width = " in answer.err
    assert "Best: trial " in answer.out
    facts = json.loads(firth(*command, "--resume", "--json").out)
    values = [one["value"] for one in facts["trials"]]
    assert facts["best"]["value"] == min(values)
    assert sum(facts["importances"].values()) == pytest.approx(1)
    assert f"firth evaluate {facts['best']['run']}" in answer.out
    page = (tmp_path / "out" / "sweep.html").read_text()
    for title in ("Optimisation history", "Importance of the settings", "Parallel coordinates", "The best trial"):
        assert title in page
    printed = firth(*command, "--resume", "--csv", "--save", tmp_path / "other.csv").out
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert [float(row["loss"]) for row in rows] == values
    assert [float(row["training.rate"]) for row in rows] == [one["settings"]["training.rate"] for one in facts["trials"]]
    assert len(list(tmp_path.glob("other-*.csv"))) == 4
    again = firth("train", Path(facts["best"]["run"]) / "recipe.toml", "--training.seed=1", "--out", tmp_path / "again")
    assert again.code == 0, again.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--set", "model.width"), 'firth: --set is "model.width"; expected a setting, as in --set model.width=64,128'),
        (("--range", "rate=1:2"), 'firth: --range is "rate=1:2"; expected a setting, as in --range training.rate='),
        (("--set", "model.width=4,8", "--range", "model.width=4:8"), "firth: model.width is given twice"),
        (("--set", "model.width=4,8", "--training.rate=0.1", "--csv", "--json"), "firth: give one of --csv"),
        (("--set", "model.width=4,8", "--model.width=16"), "firth: model.width is fixed, but also swept"),
    ],
)
def test_the_verb_refuses_what_it_cannot_read(options: Any, message: str, tmp_path: Path, firth: Firth) -> None:
    answer = firth("sweep", "docs-char-gru", *options, "--out", tmp_path / "out")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(message)
    assert not list(tmp_path.iterdir())


def command(out: Path, *more: object) -> subprocess.Popen[str]:
    recipe = out.parent / "long.toml"
    recipe.write_text(tomli_w.dumps(table(steps=200, evaluate_every=20, checkpoint_every=10)))
    line = [sys.executable, "-m", "firth", "sweep", str(recipe), "--range", "training.rate=log:1e-3:1e-1", "--trials", "4"]
    line += ["--sampler", "random", "--jobs", "2", "--out", str(out), *map(str, more)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def trials_of(process: subprocess.Popen[str]) -> list[Any]:
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return [(one["number"], one["ending"], one["value"], one["steps"]) for one in json.loads(out)["trials"]]


def wait_for(run: Path) -> None:
    """Processes whose parent was killed save their runs before they end."""
    for _ in range(600):
        with contextlib.suppress(RunError), held(run):
            return
        time.sleep(0.1)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return trials_of(command(tmp_path_factory.mktemp("sweep") / "whole", "--json"))


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_sweep_that_is_killed_and_resumed_gives_the_same_trials(end: int, undisturbed: list[Any], tmp_path: Path) -> None:
    process = command(tmp_path / "killed")
    while not list((tmp_path / "killed").glob("runs/*/checkpoints/*")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.kill(process.pid, end)
    _, err = process.communicate(timeout=120)
    if end == signal.SIGINT:
        assert process.returncode == 130
        assert "4 of 4 trials to go" in err
        assert "Add --resume to continue" in err
    for run in (tmp_path / "killed" / "runs").iterdir():
        wait_for(run)
    assert trials_of(command(tmp_path / "killed", "--resume", "--json")) == undisturbed
    assert len(undisturbed) == 4
