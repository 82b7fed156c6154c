"""firth compare RUN RUN…: the same texts, seeds as one model, and tests against the first."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from option_examples import Shelf
from runs import TEXT, recipe_table
from shell import Firth

import firth as toolkit
from firth.errors import ConfigError
from firth.experiments.compared_models import groups
from firth.training.folder import RunFolder


@pytest.fixture(scope="module")
def shelf(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return Shelf(request, tmp_path_factory.mktemp("shelf"))


def test_runs_of_two_seeds_are_one_model(shelf: Shelf, firth: Firth) -> None:
    runs = [shelf["lstm"], shelf["lstm2"], shelf["rotary"]]
    result = toolkit.compare("runs", runs=runs, split="train", samples=200, progress=False)
    assert [(model.name, len(model.runs)) for model in result.models] == [("lstm", 2), ("rotary", 1)]
    losses = [toolkit.load(run).evaluate(split="train", progress=False)["loss"] for run in runs]
    assert result.models[0].values("loss") == pytest.approx(losses[:2])
    of_loss = result.differences[0]
    assert (of_loss.metric, of_loss.model) == ("loss", "rotary")
    assert of_loss.tested.difference == pytest.approx(losses[2] - (losses[0] + losses[1]) / 2)
    assert of_loss.tested.low < of_loss.tested.difference < of_loss.tested.high
    assert of_loss.tested.p is None
    assert any("no p where" in note for note in result.notes)
    apart = toolkit.compare("runs", runs=runs[:2], split="train", samples=200, apart=True, progress=False)
    assert [model.name for model in apart.models] == ["lstm", "lstm2"]
    assert apart.differences[0].tested.p is not None


def test_the_shorthand_prints_what_the_verb_prints(shelf: Shelf, firth: Firth, tmp_path: Path) -> None:
    runs = (shelf["lstm"], shelf["rotary"], "--split", "train", "--samples", 100)
    told = firth("compare", *runs, "--save", tmp_path / "page.html")
    assert told.code == 0, told.err
    assert told.out.startswith(firth("compare", "runs", *runs).out)
    assert "rotary − lstm" in told.out
    assert f"Figures: {tmp_path / 'page.html'}" in told.out
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(part in page for part in ("Difference in loss from lstm", "Loss against tokens", "Loss against seconds"))
    rows = list(csv.DictReader(io.StringIO(firth("compare", "--csv", *runs).out)))
    facts = json.loads(firth("compare", "--json", *runs).out)
    shown = {row["model"]: float(row["value"]) for row in rows if row["metric"] == "loss"}
    assert shown == {name: model["loss"]["mean"] for name, model in facts["models"].items()}
    assert r"\toprule" in firth("compare", *runs, "--latex").out


def test_other_tokens_are_compared_by_characters(shelf: Shelf, tmp_path: Path) -> None:
    data = tmp_path / "long.txt"
    data.write_text(TEXT * 2, encoding="utf-8")
    result = toolkit.compare("runs", runs=[shelf["char"], shelf["bpe"]], data=data, samples=200, progress=False)
    assert [one.metric for one in result.differences] == ["bits_per_character"]
    assert "512 characters" in result.differences[0].units
    assert {note.partition(":")[0] for note in result.notes} == {"no test of loss", "no test of perplexity"}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_task_without_sums_is_compared_without_a_test(shelf: Shelf) -> None:
    result = toolkit.compare("runs", runs=[shelf["swaps"], shelf["swaps2"]], progress=False)
    assert not result.differences
    assert "not sums over texts" in result.text()
    assert result.metrics


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        (("lstm",), "expected two or more different ones"),
        (("lstm", "lstm"), "two or more different ones"),
        (("lstm", "classifier"), "Only runs of the same task can be compared"),
        (("lstm", "word"), "not evaluated on the same texts"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(shelf: Shelf, runs: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        toolkit.compare("runs", runs=[shelf[name] for name in runs], progress=False)


def test_other_data_are_refused(shelf: Shelf, tmp_path: Path) -> None:
    table = recipe_table()
    table["data"]["text"] = TEXT.replace("list", "name")
    table["training"]["steps"] = 1
    other = toolkit.train(table, tmp_path / "other", progress=False).path
    with pytest.raises(ConfigError, match="not evaluated on the same texts"):
        toolkit.compare("runs", runs=[shelf["char"], other], progress=False)


def test_few_blocks_are_not_tested(shelf: Shelf) -> None:
    result = toolkit.compare("runs", runs=[shelf["lstm"], shelf["rotary"]], split="valid", progress=False)
    assert not result.differences
    assert all("10 or more are needed" in note for note in result.notes)
    assert "Differences" not in [section.title for section in result.sections()]


def test_a_misspelt_comparison_gets_a_suggestion(firth: Firth) -> None:
    answer = firth("compare", "lerning")
    assert answer.code == 2
    assert "Did you mean 'firth compare learning'" in answer.err


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("hello", '"hello" is a recipe; expected two or more trained runs. Train one with `firth train hello --out RUN`.'),
        ("nosuch-7", 'there is no run "nosuch-7"; expected two or more. Write firth compare RUN RUN.'),
        ("gradient", "Did you mean 'firth inspect RUN TEXT --what flow'"),
    ],
)
def test_one_name_that_is_no_folder_is_told_what_is_compared(firth: Firth, name: str, says: str) -> None:
    answer = firth("compare", name)
    assert answer.code == 2
    assert says in answer.err


def test_models_are_named_after_their_folders(tmp_path: Path) -> None:
    paths = []
    for folder, seed, width in (("a/gru-10", 10, 8), ("a/gru-2", 2, 8), ("b/gru", 0, 4), ("c/gru", 0, 5)):
        recipe = f"[model]\nkind = 'gru'\nwidth = {width}\n[training]\nseed = {seed}\n"
        paths.append(RunFolder.create(tmp_path / folder, recipe, "").path)
    assert groups(paths[:3], apart=False) == {"gru": [paths[1], paths[0]], str(paths[2]): [paths[2]]}
    assert list(groups(paths[2:], apart=False)) == ["gru", str(paths[3])]
