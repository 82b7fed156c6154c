"""A run's record of the programs, the machine and the command that trained it."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from shell import Firth
from tiny_runs import TEXT, recipe_file, stopping_at, tiny

import firth as package
from firth.api import compose, train_recipe
from firth.config import to_table
from firth.errors import Diverged, Interrupted
from firth.training import command, history
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
    assert first["numpy"] == np.__version__
    assert first["cores"] >= 1
    assert first["cpu"]
    assert first["memory"] > 1 << 28
    assert platform.release() in first["system_version"]


def test_a_record_says_when_where_and_how_its_training_ended(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        train_recipe(RECIPE, tmp_path / "run", watcher=stopping_at(2))
    train_recipe(RECIPE, tmp_path / "run", resume=True)
    train_recipe(RECIPE, tmp_path / "run", resume=True)  # has nothing to do, and leaves no record
    records = history.read(RunFolder(tmp_path / "run"))
    assert [(one["last_step"], one["outcome"]) for one in records] == [(2, "interrupted"), (4, "finished")]
    assert all(one["time"] <= one["ended"] for one in records)
    with pytest.raises(Diverged):
        train_recipe(tiny(rate=1e30, clip=0), tmp_path / "exploded")
    assert history.read(RunFolder(tmp_path / "exploded"))[0]["outcome"] == "diverged"


def test_a_record_names_held_out_files_and_initial_weights_with_their_hashes(tmp_path: Path) -> None:
    held_out = tmp_path / "held-out.txt"
    held_out.write_text(TEXT, encoding="utf-8")
    first = train_recipe(RECIPE, tmp_path / "first").path
    assert first is not None
    recipe = compose({**to_table(RECIPE), "data": {"text": TEXT, "valid_path": str(held_out)}}, [("training.init", str(first))])
    train_recipe(recipe, tmp_path / "run")
    (record,) = history.read(RunFolder(tmp_path / "run"))
    expected = {"data.valid_path": held_out, "training.init": first / "model.safetensors"}
    assert {name: one["sha256"] for name, one in record["inputs"].items()} == {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in expected.items()
    }


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
    training = SimpleNamespace(step=3, device=torch.device("cpu"))
    with history.recorded(folder, training, {}):  # type: ignore[arg-type]
        assert history.read(folder)[-1]["step"] == 3
    assert history.read(folder)[-1]["outcome"] == "finished"


def test_a_script_is_a_python_call_and_a_long_command_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["firth.py", "train"])
    assert command.command_line() == "Python call"
    monkeypatch.setattr(sys, "argv", ["/usr/lib/firth/__main__.py", "train", "a b"])
    assert command.command_line() == "firth train 'a b'"
    monkeypatch.setattr(sys, "argv", ["/usr/bin/firth", "train", "a" * 10_000])
    assert len(command.command_line()) == 5001
