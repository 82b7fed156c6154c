"""Models trained side by side, each in a process of its own, are those that are trained alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from runs import recipe_table

from firth.api import Recipe, Watcher, compose
from firth.errors import DataError
from firth.experiments.tour import station
from firth.experiments.tour.station import train_side_by_side
from firth.training import log
from firth.training.folder import RunFolder


def recipe(kind: str, steps: int = 20) -> Recipe:
    table = recipe_table(model=kind)
    return compose(table | {"training": {**table["training"], "steps": steps}})


def losses(path: Path) -> list[float]:
    return [line["loss"] for line in log.read(RunFolder(path).log)]


@pytest.mark.long
def test_they_are_the_models_that_are_trained_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(station, "cores", lambda: 2)
    runs = {kind: (recipe(kind), tmp_path / kind) for kind in ("rnn", "gru")}
    heard: dict[str, list[tuple[int, int]]] = {}
    train_side_by_side(runs, Watcher(work=lambda what, done, total: heard.setdefault(what, []).append((done, total))))
    assert {name: steps[-1] for name, steps in heard.items()} == {"rnn": (20, 20), "gru": (20, 20)}
    for kind, (given, path) in runs.items():
        train_alone(given, tmp_path / f"{kind} alone")
        assert losses(path) == losses(tmp_path / f"{kind} alone")


def train_alone(given: Recipe, out: Path) -> None:
    """In a new process: on ARM, torch may have given up oneDNN's products for other ones in this process."""
    file = out.with_suffix(".toml")
    file.write_text(given.toml(), encoding="utf-8")
    command = [sys.executable, "-m", "firth", "train", str(file), "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


@pytest.mark.long
def test_an_error_of_one_ends_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(station, "cores", lambda: 2)
    broken = compose({**recipe_table(model="rnn"), "data": {"path": str(tmp_path / "missing.txt")}})
    endless = recipe("gru", steps=1_000_000)
    with pytest.raises(DataError, match=r"missing\.txt"):
        train_side_by_side({"broken": (broken, tmp_path / "a"), "endless": (endless, tmp_path / "b")}, Watcher())
