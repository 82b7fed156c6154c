"""Lists of runs, conditions on them, and the differences between two."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from shell import Firth
from tiny_runs import stopping_at, tiny

import firth as package
from firth.api import load, train_recipe
from firth.errors import ConfigError, Interrupted, RunError
from firth.experiments.records import find
from firth.experiments.records.condition import RunCondition
from firth.experiments.records.difference import run_difference
from firth.experiments.records.listing import runs
from firth.experiments.records.run_record import read_record
from firth.training import log

OLD = Path(__file__).resolve().parent.parent / "old_runs"
VALUES = {"loss": 1.25, "steps": 40, "kind": "lstm", "compile": True, "betas": [0.9, 0.95], "nothing": None}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """two/gru and two/deep/lstm, and an interrupted run with one step."""
    folder = tmp_path_factory.mktemp("shelf")
    train_recipe(tiny("gru", evaluate_every=2), folder / "two" / "gru")
    train_recipe(tiny("lstm", width=12, evaluate_every=2), folder / "two" / "deep" / "lstm")
    with pytest.raises(Interrupted):
        train_recipe(tiny("rnn"), folder / "stopped", watcher=stopping_at(3))
    return folder


def names(records: Any) -> list[str]:
    return [Path(record.name).name for record in records]


def test_the_figures_of_a_run_are_those_of_its_log_and_of_its_loaded_network(shelf: Path) -> None:
    record = read_record(shelf / "two" / "gru")
    network = load(shelf / "two" / "gru").network
    lines = log.read(shelf / "two" / "gru" / "log.jsonl")
    losses = [line["valid"]["loss"] for line in lines if "valid" in line]
    expected = {
        "kind": "gru",
        "task": "next-token",
        "parameters": sum(weight.numel() for weight in network.parameters()),
        "steps": 6,
        "loss": min(losses),
        "last.loss": losses[-1],
        "train.loss": lines[-1]["loss"],
        "tokens": lines[-1]["tokens"],
        "status": "finished",
        "firth": package.__version__,
    }
    assert {name: record.value(name) for name in expected} == expected
    assert read_record(shelf / "stopped").value("status") == "interrupted"


def test_the_figures_are_those_of_the_weights_that_are_kept(shelf: Path, tmp_path: Path) -> None:
    shutil.copytree(shelf / "two" / "gru", tmp_path / "gru")
    before = read_record(tmp_path / "gru")
    with (tmp_path / "gru" / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 7, "loss": 9.5, "valid": {"loss": 9.0}}\n')
    after = read_record(tmp_path / "gru")
    assert (after.value("last.loss"), after.value("train.loss"), after.value("steps")) == (9.0, 9.5, 7)
    assert (after.value("loss"), after.value("best_step")) == (before.value("loss"), 6)


@pytest.mark.parametrize("old", [path.parent for path in sorted(OLD.glob("*/model.safetensors"))], ids=lambda path: path.name)
def test_a_run_of_an_older_version_is_listed_with_its_parameters_and_its_loss(old: Path) -> None:
    (record,) = runs(old, progress=False)
    assert record.value("parameters") == sum(weight.numel() for weight in load(old).network.parameters())
    assert record.value("steps") == 20
    assert record.value("loss") is not None
    assert record.value("date") is record.value("commit") is None


def test_runs_are_found_at_any_depth_once_and_links_in_a_circle_end(shelf: Path, tmp_path: Path) -> None:
    (tmp_path / "all").symlink_to(shelf)
    (tmp_path / "again").symlink_to(shelf / "two")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    shutil.copytree(shelf / "two" / "gru", tmp_path / ".hidden" / "gru")
    assert sorted(names(runs(tmp_path, tmp_path, progress=False))) == ["gru", "lstm", "stopped"]
    with pytest.raises(RunError, match="is not a folder"):
        runs(tmp_path / "absent")


def test_a_huge_tree_ends_the_search_with_a_note(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "_MOST", 12)
    records = runs(shelf, progress=False)
    assert len(records) < 3
    assert records.remarks() == ["the search ended after 12 files and folders; give folders further down"]


def _without_recipe(run: Path) -> None:
    (run / "recipe.toml").unlink()


def _no_toml(run: Path) -> None:
    (run / "recipe.toml").write_text("[model", encoding="utf-8")


def _cut_weights(run: Path) -> None:
    (run / "model.safetensors").write_bytes((run / "model.safetensors").read_bytes()[:9])


def _newer(run: Path) -> None:
    (run / "format").write_text("99\n", encoding="utf-8")


@pytest.mark.parametrize("damage", [_without_recipe, _no_toml, _cut_weights, _newer])
def test_a_damaged_run_is_named_and_the_others_are_listed(damage: Callable[[Path], None], shelf: Path, tmp_path: Path) -> None:
    shutil.copytree(shelf / "two", tmp_path / "two")
    damage(tmp_path / "two" / "gru")
    records = runs(tmp_path, progress=False)
    assert names(records) == ["lstm"]
    assert list(records.damaged) == [str(tmp_path / "two" / "gru")]
    assert str(tmp_path / "two" / "gru") in records.remarks()[0]


@pytest.mark.parametrize(
    "content", ["model = 5", "[model]\nkind = 3\n[training]\nsteps = []", "summary = [[]]\n[objective.kind]\na = 1"]
)
def test_a_recipe_of_nonsense_stops_nothing(content: str, shelf: Path, tmp_path: Path) -> None:
    shutil.copytree(shelf / "two" / "gru", tmp_path / "gru")
    (tmp_path / "gru" / "recipe.toml").write_text(content, encoding="utf-8")
    (tmp_path / "gru" / "log.jsonl").write_text('{"step": 3, "loss": NaN, "valid": [], "seconds": "x"}\n', encoding="utf-8")
    records = runs(tmp_path, where="steps == 3 or model.width == 4", progress=False)
    assert names(records) == ["gru"]
    assert records.text()
    json.dumps(records.facts(), allow_nan=False)


def test_a_run_whose_ideas_come_from_a_file_is_listed_without_that_file(shelf: Path, tmp_path: Path) -> None:
    shutil.copytree(shelf / "two" / "gru", tmp_path / "own")
    recipe = (tmp_path / "own" / "recipe.toml").read_text(encoding="utf-8")
    own = 'ideas = ["my_cell.py sha256:00"]\n' + recipe.replace('kind = "gru"', 'kind = "my_cell"')
    (tmp_path / "own" / "recipe.toml").write_text(own, encoding="utf-8")
    (record,) = runs(tmp_path, where='model.kind == "my_cell" and model.width == 8', progress=False)
    assert record.value("parameters") == read_record(shelf / "two" / "gru").value("parameters")


@pytest.mark.parametrize(
    "text",
    [
        "loss < 1.5",
        "loss >= 1.25 and not steps > 40",
        "1 < loss <= 1.25 < 2",
        'kind == "lstm" or loss > 9',
        'kind in ["gru", "lstm"] and kind not in ("rnn",)',
        '"st" in kind',
        "loss * 2 - 0.5 == 2 and steps / 4 == 10 and -steps + 1 < 0",
        "compile",
        "compile == True and not compile != True",
        "loss == kind or loss != 3",
        "-" * 450 + "1 < 2",
        "0.9 in betas",
    ],
)
def test_a_condition_is_what_python_makes_of_it(text: str) -> None:
    known = eval(text, {"__builtins__": {}}, {name: value for name, value in VALUES.items() if value is not None})
    assert RunCondition(text).holds(VALUES.get) is known


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("nothing < 1", None),
        ("not nothing < 1", None),
        ("nothing < 1 and loss < 0", False),
        ("nothing < 1 and loss < 9", None),
        ("nothing < 1 or loss < 9", True),
        ("nothing == nothing", None),
        ("loss + nothing < 9", None),
        ("loss / (steps - 40) < 9", None),
        ("loss < absent.setting < 0", None),
        ("compile == true and compile != false", True),
    ],
)
def test_what_a_run_lacks_is_unknown(text: str, truth: bool | None) -> None:
    assert RunCondition(text).holds(VALUES.get) is truth


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read"),
        ("loss <", "cannot be read"),
        ("loss = 3", "cannot be read"),
        ("loss < 1; import os", "cannot be read"),
        ("__import__('os').system('x')", "contains"),
        ("kind.upper() == 'LSTM'", "contains"),
        ("().__class__", "contains"),
        ("[x for x in betas]", "contains"),
        ("betas[0] < 1", "contains"),
        ("loss ** 9 > 1", "contains"),
        ("(lambda: 1) == 1", "contains"),
        ("loss is 3", "contains"),
        ("f'{loss}' == ''", "contains"),
        ("loss", "neither true nor false"),
        ("loss < 'a'", "a number, with 'a', a text"),
        ("compile < 1", "true or false"),
        ("3 in loss", "no list"),
        ("kind * 2 == 3", "no number"),
        ("9" * 501, "501 characters"),
        ("(loss < 2) == True", "contains"),
    ],
)
def test_anything_else_in_a_condition_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RunCondition(text).holds(VALUES.get)


def test_conditions_columns_and_order_know_figures_and_settings(shelf: Path) -> None:
    assert names(runs(shelf, where="model.width == 12 and training.rate < 1", progress=False)) == ["lstm"]
    assert names(runs(shelf, where="loss < 99", progress=False)) == ["lstm", "gru"]  # the third was never validated
    assert names(runs(shelf, where='training.init == "x"', progress=False)) == []  # set in none of them
    by_width = runs(shelf, sort="-model.width", columns=("model.width", "training.steps"), progress=False)
    assert by_width.facts()["runs"][0] == {"model.width": 12, "training.steps": 6}
    assert names(runs(shelf, sort="loss", progress=False))[-1] == "stopped"
    for wrong in ({"where": "model.widht > 3"}, {"columns": ["model.widht"]}, {"sort": "model.widht"}):
        with pytest.raises(ConfigError, match=r'"model\.widht" is neither .* Did you mean "model\.width"'):
            runs(shelf, progress=False, **wrong)


def test_the_cost_of_a_loss_is_a_figure_of_columns_conditions_and_order(shelf: Path) -> None:
    lines = [line for line in log.read(shelf / "two" / "gru" / "log.jsonl") if "valid" in line]
    loss = lines[1]["valid"]["loss"]
    steps, seconds = f"steps_to({loss!r})", f"seconds_to({loss!r})"
    records = runs(shelf, columns=("run", steps, seconds, "steps_to(0.01)"), sort=steps, progress=False)
    (gru,) = (record for record in records if record.name.endswith("gru"))
    assert (gru.value(steps), gru.value(seconds)) == (lines[1]["step"], lines[1]["seconds"])
    assert gru.value("steps_to(0.01)") is None
    cells = {Path(row[0]).name: row[1:] for row in records.table().rows}
    assert records.table().headings[1] == f"steps to {loss:g}"
    assert (cells["gru"][0], cells["gru"][2]) == ("4", "not reached")
    assert cells["stopped"] == ["", "", ""]  # never validated
    assert {one["run"]: one[steps] for one in records.facts()["runs"]}[gru.name] == 4
    assert "gru" in names(runs(shelf, where=f"{steps} <= 4 and kind == 'gru'", progress=False))
    assert names(runs(shelf, where=f"{steps} < 4 and kind == 'gru'", progress=False)) == []
    for wrong in ("steps_to", "steps_to('x')", "steps_to(loss=1)"):
        with pytest.raises(ConfigError, match="needs a validation loss, such as steps_to"):
            runs(shelf, where=f"{wrong} < 1", progress=False)


def test_the_verb_prints_a_table_json_and_csv(firth: Firth, shelf: Path) -> None:
    head, *rows = firth("runs", shelf / "two", "--sort", "loss", "--columns", "run,loss,model.kind").out.splitlines()
    assert head.split() == ["run", "loss", "model.kind"]
    told = json.loads(firth("runs", shelf / "two", "--sort", "loss", "--columns", "run,loss,model.kind", "--json").out)
    assert [row.split() for row in rows] == [[one["run"], f"{one['loss']:.4f}", one["model.kind"]] for one in told["runs"]]
    written = firth("runs", shelf / "two", "--where", 'kind == "gru"', "--columns", "run,steps", "--csv").out
    assert list(csv.reader(io.StringIO(written))) == [["run", "steps"], [str(shelf / "two" / "gru"), "6"]]
    nothing = firth("runs", shelf, "--where", "loss < 0")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "firth: no run meets the condition\n")
    assert "stopped" in runs(shelf, progress=False)._repr_html_()


def test_runs_in_the_current_folder_have_short_names(shelf: Path, firth: Firth, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shelf)
    told = json.loads(firth("runs", "--json").out)["runs"]
    assert [one["run"] for one in told] == ["stopped", os.path.join("two", "deep", "lstm"), os.path.join("two", "gru")]


def test_a_difference_names_each_setting_that_two_runs_have_not_in_common(shelf: Path) -> None:
    difference = run_difference(shelf / "two" / "gru", shelf / "two" / "deep" / "lstm")
    assert difference.settings == {"model.kind": {"a": "gru", "b": "lstm"}, "model.width": {"a": 8, "b": 12}}
    assert difference.record == {}
    assert {"loss", "parameters"} <= difference.figures.keys()
    assert not difference.equal
    assert difference.text().splitlines()[0].split()[0] == "settings"
    recipes = run_difference("docs-char-gru", "docs-char-transformer").settings
    assert recipes["model.attention.heads"].keys() == {"b"}  # a cell has none


def test_a_run_equals_itself_and_the_recipe_that_it_was_made_with(firth: Firth, shelf: Path) -> None:
    run = shelf / "two" / "gru"
    assert firth("run", "diff", run, run).out == f"{run} and {run} are equal\n"
    assert json.loads(firth("run", "diff", run / "recipe.toml", run, "--json").out)["equal"] is True
    told = firth("run", "diff", "hello", run, "--json")
    assert told.code == 0
    assert json.loads(told.out)["settings"]["training.steps"] == {"a": 200, "b": 6}


def test_a_difference_shows_other_data_and_another_environment(shelf: Path, tmp_path: Path) -> None:
    shutil.copytree(shelf / "two" / "gru", tmp_path / "gru")
    lines = (tmp_path / "gru" / "history.jsonl").read_text(encoding="utf-8").splitlines()
    other = SimpleNamespace(**json.loads(lines[-1]))
    other.torch, other.inputs = "9.9", {"data.valid_path": {"files": 1, "bytes": 3, "sha256": "ab"}}
    (tmp_path / "gru" / "history.jsonl").write_text(json.dumps(vars(other)) + "\n", encoding="utf-8")
    recipe = (tmp_path / "gru" / "recipe.toml").read_text(encoding="utf-8").replace('sha256 = "', 'sha256 = "0')
    (tmp_path / "gru" / "recipe.toml").write_text(recipe, encoding="utf-8")
    difference = run_difference(shelf / "two" / "gru", tmp_path / "gru")
    assert difference.record.keys() == {"data", "torch", "input data.valid_path"}
    assert difference.record["torch"]["b"] == "9.9"
    assert difference.settings == difference.figures == {}
    assert "ab" in difference.text()
