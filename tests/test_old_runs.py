"""Runs that an earlier firth trained (tests/old_runs/make.py) load, evaluate, answer and resume as they did there; and runs of
every kind that firth 0.2 wrote (tests/old_runs/drawn/make.py), with drawn weights, answer as they did there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from old_runs.drawn import make as drawn
from old_runs.make import PLACEHOLDER, asked
from same_numbers.known import differences
from shares import half
from shell import Firth

from firth.api import Watcher, load, train_recipe
from firth.api.recipe import read_run_recipe
from firth.training import log

FOLDER = Path(__file__).parent / "old_runs"
KINDS = sorted(path.parent.name for path in FOLDER.glob("*/format"))
DRAWN = sorted(path.parent.name for path in drawn.HERE.glob("*/expected.json"))
TIMES = {"seconds", "tokens_per_second"}
SUMMED = {
    "next-token": {"loss", "perplexity", "bits_per_character"},
    "classification": {"accuracy", "macro_f1", "loss"},
    "tagging": {"accuracy", "loss"},
    "translation": {"bleu", "chrf", "exact", "loss", "perplexity"},
    "answer": {"exact", "f1"},
}


def test_there_is_an_old_run_of_each_objective() -> None:
    assert len(KINDS) == 9


@pytest.fixture(params=KINDS)
def old_run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy to work on, whose recipe finds its data."""
    run = tmp_path / request.param
    shutil.copytree(FOLDER / request.param, run)
    recipe = run / "recipe.toml"
    recipe.write_text(recipe.read_text(encoding="utf-8").replace(PLACEHOLDER, str(run)), encoding="utf-8")
    return run


def assert_close(given: Any, expected: Any, at: str = "") -> None:
    """Equal, numbers up to what another processor's rounding does in 20 steps."""
    if isinstance(expected, dict):
        assert given.keys() >= expected.keys(), at
        for key in expected:
            assert_close(given[key], expected[key], f"{at}/{key}")
    elif isinstance(expected, list):
        assert len(given) == len(expected), at
        for n, (one, other) in enumerate(zip(given, expected, strict=True)):
            assert_close(one, other, f"{at}/{n}")
    elif isinstance(expected, float):
        assert given == pytest.approx(expected, rel=1e-3, abs=1e-4), at
    else:
        assert given == expected, at


def test_an_old_run_evaluates_and_answers_as_it_did(old_run: Path) -> None:
    expected = json.loads((old_run / "expected.json").read_text(encoding="utf-8"))
    run = load(old_run, "cpu")
    scores = json.loads(json.dumps(run.evaluate()))
    assert_close(scores, expected["evaluate"])
    assert_close(asked(old_run.name, run), expected["asked"])


@pytest.mark.parametrize("old_run", SUMMED, indirect=True)
def test_metrics_text_by_text_sum_to_those_of_an_evaluation(old_run: Path) -> None:
    run = load(old_run, "cpu")
    told = run.evaluate(split="train", progress=False)
    judged = run.by_text(split="train", progress=False)
    assert judged is not None
    assert set(judged.metrics) >= SUMMED[old_run.name]
    assert judged.name == "train"
    for metric, counts in judged.metrics.items():
        # The first token is not predicted: `evaluate` counts its characters as a mean token's.
        assert counts.value == pytest.approx(told[metric], rel=2e-3 if metric == "bits_per_character" else 1e-5), metric
        assert len(counts.count_NK) > 1


@pytest.mark.parametrize("old_run", ["masked", "in-context"], indirect=True)
def test_other_tasks_have_no_metrics_text_by_text(old_run: Path) -> None:
    assert load(old_run, "cpu").by_text(progress=False) is None


def test_an_old_run_resumes_and_ends_as_it_did(old_run: Path) -> None:
    before = list(log.read(old_run / "log.jsonl"))
    steps: list[int] = []
    watcher = Watcher(step=lambda seen: steps.append(seen.step))
    train_recipe(read_run_recipe(old_run / "recipe.toml"), old_run, resume=True, watcher=watcher)
    assert steps == list(range(11, 21))
    after = list(log.read(old_run / "log.jsonl"))
    assert [line["step"] for line in after] == [line["step"] for line in before]
    for given, expected in zip(after, before, strict=True):
        assert_close({**given}, {key: value for key, value in expected.items() if key not in TIMES}, f"step {expected['step']}")


@pytest.mark.parametrize("name", half(DRAWN))
def test_a_run_of_the_last_release_answers_as_it_did(name: str, tmp_path: Path) -> None:
    expected = json.loads((drawn.HERE / name / "expected.json").read_text(encoding="utf-8"))
    run = drawn.written(drawn.HERE / name, tmp_path / "run", expected.pop("seed"))
    assert not list(differences(drawn.answers(run), expected))


def test_a_run_of_the_last_release_goes_through_the_command_line(tmp_path: Path, firth: Firth) -> None:
    expected = json.loads((drawn.HERE / "gru" / "expected.json").read_text(encoding="utf-8"))
    run = drawn.written(drawn.HERE / "gru", tmp_path / "run", expected["seed"])
    answer = firth("generate", run, "the list", "--tokens", "20", "--temperature", "0")
    assert (answer.code, answer.out) == (0, "the list" + expected["greedy"] + "\n")
