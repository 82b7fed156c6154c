"""Runs of W&B, offline: what the package itself keeps of them."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import recipe_file, stopping_at, tiny
from wandb_files import history, records

from firth.api import train_recipe
from firth.config import to_table
from firth.errors import Interrupted
from firth.training.folder import RunFolder
from firth.training.log import Log
from firth.training.log import read as read_log

if importlib.util.find_spec("wandb") is None:
    pytest.skip("wandb is not installed", allow_module_level=True)
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]  # of the packages that wandb imports

RECIPE = tiny(evaluate_every=2, log_to=("wandb",))


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")


def kept(run: Path) -> list[list[Any]]:
    """The records of each process that trained the run, oldest first."""
    files = [file for file in (run / "wandb").glob("*/*.wandb") if not file.parent.is_symlink()]
    assert all(file.parent.name.startswith("offline-run-") for file in files)
    return [records(file) for file in sorted(files, key=lambda file: file.stat().st_mtime)]


def only(entries: list[Any], kind: str) -> Any:
    (one,) = (getattr(one, kind) for one in entries if one.WhichOneof("record_type") == kind)
    return one


def logged(entries: list[Any]) -> list[dict[str, float]]:
    names = ("_step", "train/loss", "valid/loss")
    return [{name: value for name, value in line.items() if name in names} for line in history(entries)]


def expected(run: Path) -> list[dict[str, float]]:
    lines = read_log(run / "log.jsonl")
    valid = [{"valid/loss": line["valid"]["loss"]} if "valid" in line else {} for line in lines]
    return [{"_step": line["step"], "train/loss": line["loss"], **one} for line, one in zip(lines, valid, strict=True)]


def outcome(entries: list[Any]) -> tuple[str, int]:
    summaries = [one.summary for one in entries if one.WhichOneof("record_type") == "summary"]
    (told,) = (json.loads(item.value_json) for one in summaries for item in one.update if item.key == "outcome")
    return told, only(entries, "exit").exit_code


def test_the_recipe_every_number_and_the_ending_are_kept_offline(tmp_path: Path) -> None:
    run = train_recipe(RECIPE, tmp_path / "my run")
    (entries,) = kept(tmp_path / "my run")
    begun = only(entries, "run")
    config = {item.key: json.loads(item.value_json) for item in begun.config.update}
    assert {name: table for name, table in config.items() if name != "_wandb"} == to_table(run.recipe)
    assert (begun.display_name, begun.project) == ("my run", "firth")
    assert logged(entries) == expected(tmp_path / "my run")
    assert outcome(entries) == ("finished", 0)


def test_a_resumed_run_keeps_its_name_and_repeats_no_step(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(Interrupted):
        train_recipe(RECIPE, run, watcher=stopping_at(3))
    with Log(RunFolder(run), 3, ("wandb",)) as log:  # steps that a killed process never saved
        log.write({"step": 4, "loss": -1.0})
    train_recipe(RECIPE, run, resume=True)
    files = kept(run)
    assert len({only(one, "run").run_id for one in files}) == 1
    assert [line["_step"] for one in files for line in logged(one)] == [1, 2, 3, 4, 5, 6]
    assert logged(files[-1]) == expected(run)[4:]
    assert [outcome(one)[0] for one in files] == ["interrupted", "finished", "finished"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process groups")
def test_after_ctrl_c_in_a_terminal_the_run_is_marked_as_interrupted(tmp_path: Path) -> None:
    """A terminal sends the signal to W&B's own process, too."""
    file, run = recipe_file(tiny(steps=1_000_000, log_to=("wandb",), log_every=20), tmp_path), tmp_path / "run"
    command = [sys.executable, "-m", "firth", "train", str(file), "--out", str(run)]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True) as process:
        while len(read_log(run / "log.jsonl")) < 3:
            assert process.poll() is None, process.communicate()
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    (entries,) = kept(run)
    assert logged(entries) == expected(run)
    assert outcome(entries) == ("interrupted", 255)
