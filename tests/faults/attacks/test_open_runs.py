"""Runs that change while they are in use: replaced under a model, damaged under the lab, killed while the lab trains them."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tiny_runs import tiny

import firth
from firth.serving.lab.app import build
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.trainings import RunTraining, VectorsTraining
from firth.serving.lab.workshop import Workshop

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="an open file can be replaced on POSIX only")
sys.path.extend(str(Path(__file__).parents[depth]) for depth in (1, 2))
sys.path.append(str(Path(__file__).parents[2] / "interop"))
ATTACKS = int(os.environ.get("FIRTH_ATTACK_INPUTS", "40"))
PARTS = ("recipe.toml", "tokenizer.json", "model.safetensors", "log.jsonl", "format", "history.jsonl")
VIEWS: dict[str, dict[str, Any]] = {
    "training/curves": {"runs": ["run"]},
    "describe/count": {"of": "run"},
    "generate/write": {"run": "run", "prompt": "the", "tokens": "3"},
    "attention/overview": {"run": "run", "text": "the list"},
    "inspect/predictions": {"run": "run", "text": "the list"},
}


# Under a loaded model


def emptied(path: Path) -> None:
    os.truncate(path, 100)


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))


def removed(path: Path) -> None:
    shutil.rmtree(path.parent)


@pytest.mark.long  # imports transformers
@pytest.mark.parametrize("change", [emptied, overwritten, removed])
def test_a_public_model_whose_file_changes_keeps_its_answers(change: Callable[[Path], None], tmp_path: Path) -> None:
    from foreign_folders import llama, saved

    saved(tmp_path / "model", llama())
    run: Any = firth.load(tmp_path / "model", "cpu")
    expected = run.generate("The list", tokens=4, temperature=0)
    change(tmp_path / "model" / "model.safetensors")
    assert run.generate("The list", tokens=4, temperature=0) == expected


@pytest.mark.parametrize("change", [emptied, overwritten, removed])
def test_a_run_whose_file_changes_keeps_its_answers(change: Callable[[Path], None], char_run: Path, tmp_path: Path) -> None:
    shutil.copytree(char_run, tmp_path / "run")
    run: Any = firth.load(tmp_path / "run", "cpu")
    expected = run.generate("the list", tokens=4, temperature=0)
    change(tmp_path / "run" / "model.safetensors")
    assert run.generate("the list", tokens=4, temperature=0) == expected


# Under the lab


def asked(client: TestClient, view: str) -> dict[str, Any]:
    *_, last = client.post(f"/api/{view}", json=VIEWS[view]).text.splitlines()
    answer: dict[str, Any] = json.loads(last)
    return answer


def attacked(client: TestClient, run: Path, good: Path, number: int) -> None:
    """Damage one file of a run that is open, then ask the lab for everything."""
    from mutations import mutated

    draw = random.Random(f"lab {number}")
    shutil.copytree(good, run, dirs_exist_ok=True)
    path = run / draw.choice(PARTS)
    content = path.read_bytes()
    for change in (lambda: path.write_bytes(mutated(content, path.name, draw)), path.unlink):
        change()
        assert client.get("/api/lab").status_code == 200
        for view in VIEWS:
            told = asked(client, view).get("error", "")
            assert "This is a bug" not in told, (number, path.name, view, told)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("numbers", [range(2), pytest.param(range(2, ATTACKS), marks=pytest.mark.long)], ids=["few", "many"])
def test_damage_to_a_run_that_the_lab_has_open_is_one_line(numbers: range, transformer_run: Path, tmp_path: Path) -> None:
    shutil.copytree(transformer_run, tmp_path / "run")
    with TestClient(build(RunLibrary([tmp_path / "run"])), base_url="http://127.0.0.1:8421") as client:
        for view in VIEWS:
            assert "error" not in asked(client, view), (view, asked(client, view))
        for number in numbers:
            attacked(client, tmp_path / "run", transformer_run, number)
        shutil.rmtree(tmp_path / "run")
        for view in VIEWS:
            assert "This is a bug" not in asked(client, view).get("error", "")


# Trainings of the lab


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_training_of_the_lab_that_is_killed_is_told_and_the_next_may_begin(number: int, tmp_path: Path) -> None:
    workshop = Workshop(tmp_path / "made")
    job = workshop.start(RunTraining(tiny(steps=100_000, checkpoint_every=5)), "first")
    until(lambda: bool(job.lines))
    os.kill(job.process.pid, number)
    until(lambda: not job.running)
    assert bool(job.error()) == (number == signal.SIGKILL)
    job.path.joinpath("log.jsonl").write_text('{"step": "x"}\n[\n')
    assert job.lines == []
    second = workshop.start(RunTraining(tiny(steps=2)), "second")
    until(lambda: not second.running)
    assert second.error() == ""
    assert second.ready
    for one in (job, second):
        one.said.close()


def test_a_damaged_log_of_word_vectors_has_no_goal() -> None:
    training = VectorsTraining("docs")
    for lines in ([], [{"step": 1}], [{"step": 1, "of": "many"}], [{"step": 1, "of": None}]):
        assert training.goal(lines) is None
