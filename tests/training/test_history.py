"""A run's record of the programs, the machine and the command that trained it."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from shell import Firth
from tiny_runs import recipe_file, stopping_at, tiny

import firth as package
from firth.api import train_recipe
from firth.errors import Interrupted
from firth.training import history
from firth.training.folder import RunFolder

RECIPE = tiny(steps=4, checkpoint_every=2)


def test_the_start_and_each_resumption_are_recorded(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train_recipe(RECIPE, tmp_path / "run", watcher=stopping_at(2))
    train_recipe(RECIPE, tmp_path / "run", resume=True)
    first, second = history.read(RunFolder(tmp_path / "run"))
    assert (first["step"], second["step"]) == (0, 2)
    assert {key: first[key] for key in ("firth", "torch", "python", "command", "gpu", "processes")} == {
        "firth": package.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "command": "Python call",
        "gpu": None,
        "processes": 1,
    }
    assert first["cores"] >= 1
    assert first["cpu"]


def test_the_commit_is_that_of_the_checkout(tmp_path: Path) -> None:
    root = Path(package.__file__).parent.parent
    if not (root / ".git").exists():
        pytest.skip("firth does not run from a git checkout")
    done = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"git does not read this checkout: {done.stderr.strip()}")
    assert (history.commit() or "").removesuffix("-dirty") == done.stdout.strip()


def test_describe_shows_the_command_line(firth: Firth, tmp_path: Path) -> None:
    recipe, run = recipe_file(RECIPE, tmp_path), tmp_path / "run"
    assert firth("train", recipe, "--out", run, "--training.steps=1").code == 0
    command = f"firth train {recipe} --out {run} --training.steps=1"
    told = firth("describe", run).out.splitlines()[-1]
    assert told.startswith("made by ")
    assert told.endswith(command)
    (record,) = json.loads(firth("describe", run, "--json").out)["history"]
    assert record["command"] == command


@pytest.mark.parametrize("content", [b"", b"{", b"[1]\n5\n", b"\xff\xfe\n", b'{"firth": "0.1"}\n{"fir', b"[" * 100_000])
def test_a_damaged_history_stops_nothing(content: bytes, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.history.write_bytes(content)
    for line in history.read(folder):
        history.summary(line)
    history.record(folder, 3, torch.device("cpu"))
    assert history.read(folder)[-1]["step"] == 3


def test_a_script_is_a_python_call_and_a_long_command_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["firth.py", "train"])
    assert history.command_line() == "Python call"
    monkeypatch.setattr(sys, "argv", ["/usr/lib/firth/__main__.py", "train", "a b"])
    assert history.command_line() == "firth train 'a b'"
    monkeypatch.setattr(sys, "argv", ["/usr/bin/firth", "train", "a" * 10_000])
    assert len(history.command_line()) == 5001
