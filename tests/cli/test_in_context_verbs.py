"""firth train, evaluate, describe and verify with runs that learn in context."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from in_context_tables import linear_table, swap_table
from shell import Firth
from tiny_runs import recipe_file

from firth.api import compose, train_recipe
from firth.api.recipe import Recipe


def trained(recipe: Recipe, path: Path) -> Path:
    return train_recipe(recipe, path).path


@pytest.fixture(scope="module")
def swaps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(compose(swap_table(steps=2)), tmp_path_factory.mktemp("verbs") / "<i>swaps")


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(compose(linear_table(steps=2)), tmp_path_factory.mktemp("verbs") / "linear")


def test_train_says_how_well_it_went_and_what_comes_next(firth: Firth, tmp_path: Path) -> None:
    for table, said in ((swap_table(steps=2), "accuracy 0."), (linear_table(steps=2), "squared error ")):
        recipe, out = compose(table), tmp_path / said.strip()
        answer = firth("train", recipe_file(recipe, tmp_path), "--out", out)
        assert answer.code == 0, answer.err
        assert f"{out}: {said}" in answer.out
        assert answer.out.endswith(f"on the valid data. Next: firth evaluate {out}\n")


def test_evaluate_prints_a_line_for_each_number_of_examples(firth: Firth, swaps: Path, linear: Path) -> None:
    for run, metric in ((swaps, "accuracy"), (linear, "squared_error")):
        told = json.loads(firth("evaluate", run, "--json").out)
        assert told.keys() == {"loss", metric, "prompts", "by_examples", "split"}
        lines = firth("evaluate", run).out.splitlines()
        assert lines[0] == f"{'prompts':<20}20 of test"
        assert lines[1].startswith(f"{'loss':<20}{told['loss']:.4f} ")
        assert lines[2] == f"{metric.replace('_', ' '):<20}{told[metric]:.4f} after all examples"
        assert [line.split()[:2] for line in lines[5:]] == [
            [str(row["examples"]), f"{row[metric]:.4f}"] for row in told["by_examples"]
        ]
        assert len(lines[5:]) == (4 if metric == "accuracy" else 5)


def test_evaluate_draws_a_run_beside_another(firth: Firth, swaps: Path, tmp_path: Path) -> None:
    lstm = trained(compose(swap_table("lstm", steps=2)), tmp_path / "lstm")
    answer = firth("evaluate", swaps, "--beside", lstm, "--save", tmp_path / "page.html")
    assert answer.code == 0, answer.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    own, other = (json.loads(firth("evaluate", run, "--json").out)["by_examples"] for run in (swaps, lstm))
    body = page[page.index("<body>") :]
    table = re.findall(r"<td>([^<]*)</td>", body)
    assert table == [
        cell
        for one, two in zip(own, other, strict=True)
        for cell in (str(one["examples"]), f"{one['accuracy']:.4f}", f"{two['accuracy']:.4f}", f"{one['best']:.4f}")
    ]
    assert "<i>" not in body, "the name of a folder is text"


def test_runs_of_one_name_are_told_apart_by_their_folders(firth: Firth, linear: Path, tmp_path: Path) -> None:
    other = trained(compose(linear_table(steps=1)), tmp_path / "linear")
    assert firth("evaluate", linear, "--beside", other, "--split", "valid", "--save", tmp_path / "page.html").code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    headings = re.findall(r"<th>([^<]*)</th>", page[page.index("<body>") :])
    assert headings == ["examples", str(linear), str(other), "least squares", "always 0"]
    assert "20 prompts of valid, each with a new task." in page
    errors = [json.loads(firth("evaluate", run, "--split", "valid", "--json").out)["squared_error"] for run in (linear, other)]
    assert re.findall(r"<td>([^<]*)</td>", page[page.index("<body>") :])[-4:-2] == [f"{error:.4f}" for error in errors]


def test_what_cannot_stand_beside_is_refused(firth: Firth, swaps: Path, linear: Path, char_run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    answer = firth("evaluate", swaps, "--beside", linear, "--save", page)
    assert (answer.code, "was trained on other tasks. Give a run with the same [data]" in answer.err) == (2, True)
    answer = firth("evaluate", swaps, "--beside", swaps)
    assert (answer.code, "--beside adds another run to the figure of --save. Add --save" in answer.err) == (2, True)
    answer = firth("evaluate", char_run, "--beside", char_run)
    assert (answer.code, "--beside only applies to runs that learn in context; this run is a" in answer.err) == (2, True)
    answer = firth("evaluate", char_run, "--save", page)
    assert (answer.code, "--save draws the results of" in answer.err) == (2, True)
    answer = firth("evaluate", char_run, "--beside", char_run, "--save", page)
    assert (answer.code, "Give --save" in answer.err) == (2, False), "it was given"
    assert not page.exists()


def test_describe_counts_a_run_as_its_recipe(firth: Firth, linear: Path, tmp_path: Path) -> None:
    recipe = recipe_file(compose(linear_table(steps=2)), tmp_path)
    run, told = (json.loads(firth("describe", name, "--json").out) for name in (linear, recipe))
    assert run["parameters"] == told["parameters"] > 0


@pytest.mark.parametrize(("promised", "code"), [(0.0, 0), (-9.0, 1)])
def test_verify_trains_it_afresh_and_compares(firth: Firth, tmp_path: Path, promised: float, code: int) -> None:
    expected = {"metric": "squared_error", "split": "test", "measured": promised, "tolerance": 5.0}
    recipe = recipe_file(compose(linear_table(steps=2) | {"expected": expected}), tmp_path)
    answer = firth("verify", recipe, "--json")
    verdict = json.loads(answer.out)
    assert (answer.code, verdict["passed"], verdict["metric"], verdict["split"]) == (code, code == 0, "squared_error", "test")
