"""Tiny runs for the tests of training: recipes that take a fraction of a second, and what two equal runs must share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from firth import files
from firth.api import Watcher, train_recipe
from firth.api.recipe import Recipe
from firth.api.training import initial_network
from firth.errors import Interrupted
from firth.layers.recurrent import CELLS
from firth.models import ModelConfig, RecurrentConfig, TransformerConfig
from firth.text.config import RunningTextConfig
from firth.training import checkpoint
from firth.training.config import TrainingConfig
from firth.training.folder import RunFolder
from firth.training.log import read as read_log
from firth.training.loop import Training, start
from firth.training.trainer import StepReport

TEXT = "".join(f"{n} times {m} is {n * m}.\n" for n in range(1, 8) for m in range(1, 8))
KINDS = (*CELLS.shipped_kinds, "transformer")
TIMES = {"seconds", "tokens_per_second"}


def tiny(
    kind: str = "gru", *, width: int = 8, dropout: float = 0.0, text: str = TEXT, valid: float = 0.2, **training: Any
) -> Recipe:
    """8 units and 6 steps of 2 × 6 tokens, unless told otherwise."""
    defaults: dict[str, Any] = {"steps": 6, "batch": 2, "context": 6, "device": "cpu", "rate": 0.01, "log_every": 1}
    config: ModelConfig
    if kind == "transformer":
        config = TransformerConfig(kind="transformer", width=width, depth=1, heads=2, dropout=dropout)
    else:
        config = RecurrentConfig(kind=kind, width=width, depth=2 if dropout else 1, dropout=dropout)  # type: ignore[arg-type]
    return Recipe(data=RunningTextConfig(text=text, valid=valid), model=config, training=TrainingConfig(**(defaults | training)))


def untrained(recipe: Recipe, data: Any) -> Training:
    """The training of a recipe at step 0."""
    task = recipe.task
    return start(initial_network(recipe, data), task.batches(data), recipe.training, task.counts(data))


def watching(
    step: Callable[[Training, StepReport], None] = lambda training, seen: None,
    notice: Callable[[str], None] = lambda message: None,
) -> Watcher:
    """A watcher whose `step` is handed the Training as well."""
    held: list[Training] = []
    return Watcher(begin=lambda training, recipe: held.append(training), step=lambda seen: step(held[0], seen), notice=notice)


def stopping_at(step: int, number: int = signal.SIGINT) -> Watcher:
    """Sends this process a signal so early that the run stops at the end of `step`."""

    def watch(training: Training, seen: StepReport) -> None:
        if seen.step == step - 1:
            signal.raise_signal(number)

    return watching(watch)


def outcome(folder: Path) -> dict[str, Any]:
    """All that a run leaves behind, except how long things took."""
    run = RunFolder.open(folder)
    newest = checkpoint.checkpoints(run)[0]
    tensors, metadata = files.load_tensors(newest)
    state = json.loads(metadata["state"])
    return {
        "newest": newest.name,
        "model": files.load_tensors(run.model),
        "checkpoint": tensors,
        "state": {key: value for key, value in state.items() if key not in TIMES},
        "log": [{key: value for key, value in line.items() if key not in TIMES} for line in read_log(run.log)],
    }


def assert_identical(given: Any, expected: Any, where: str = "") -> None:
    """Equal to the bit, tensors included."""
    if isinstance(expected, dict):
        assert given.keys() == expected.keys(), where
        for key in expected:
            assert_identical(given[key], expected[key], f"{where}/{key}")
    elif isinstance(expected, tuple | list):
        assert len(given) == len(expected), where
        for n, (one, other) in enumerate(zip(given, expected, strict=True)):
            assert_identical(one, other, f"{where}/{n}")
    elif isinstance(expected, Tensor):
        assert given.dtype == expected.dtype, where
        assert torch.equal(given, expected), where
    else:
        assert given == expected, f"{where}: {given} is not {expected}"


def assert_no_temporaries(folder: Path) -> None:
    left = [str(path) for path in folder.rglob(files.TEMPORARY + "*")]
    assert not left, left


def undisturbed(recipe: Recipe, folder: Path) -> dict[str, Any]:
    train_recipe(recipe, folder)
    return outcome(folder)


def assert_stopping_changes_nothing(recipe: Recipe, folder: Path, at: int) -> None:
    """A run that is stopped at a step and resumed is, to the bit, the one that was not; whatever others draw meanwhile."""
    expected = undisturbed(recipe, folder / "whole")
    with pytest.raises(Interrupted):
        train_recipe(recipe, folder / "run", watcher=stopping_at(at))
    assert steps_saved(folder / "run")[-1] == at
    torch.rand(3)
    train_recipe(recipe, folder / "run", resume=True)
    assert_identical(outcome(folder / "run"), expected)


def steps_saved(folder: Path) -> list[int]:
    """The steps of the checkpoints in a run folder, oldest first."""
    return sorted(int(path.stem.removeprefix("step-")) for path in (folder / "checkpoints").glob("step-*"))


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def firth_process(*arguments: str | Path, before: str = "") -> subprocess.Popen[str]:
    """`python -m firth …` with one thread; `before` is Python to run in that process first."""
    command = ["-m", "firth"] if not before else ["-c", f"{before}\nimport sys; from firth.cli import main; sys.exit(main())"]
    return subprocess.Popen(
        [sys.executable, *command, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
    )


def recipe_file(recipe: Recipe, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tiny.toml"
    path.write_text(recipe.toml(), encoding="utf-8")
    return path
