"""The functions of `firth` compute what its verbs print, for names, files, recipes and loaded runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from runs import recipe_table
from safetensors.torch import load_file
from shell import Firth

import firth as package
from firth import compare, describe, load, playground, verify, walk
from firth.api import compose, find_recipe
from firth.errors import ConfigError
from firth.experiments.playground import SettingsKeywords
from firth.inspection.playground import Settings


def test_every_public_name_is_there_and_listed() -> None:
    assert dir(package) == sorted(package.__all__) == package.__all__
    assert [name for name in package.__all__ if getattr(package, name, None) is None] == []


def test_a_run_exports_what_the_verb_writes(firth: Firth, char_run: Path, tmp_path: Path) -> None:
    run = load(char_run)
    assert run.export(tmp_path / "same", format="safetensors") == tmp_path / "same"
    assert firth("export", char_run, "--out", tmp_path / "verb" / "same", "--format", "safetensors").code == 0
    for path in sorted((tmp_path / "verb" / "same").iterdir()):
        assert (tmp_path / "same" / path.name).read_bytes() == path.read_bytes()


def test_an_export_has_the_type_that_was_asked_for_and_the_run_keeps_its_own(char_run: Path, tmp_path: Path) -> None:
    run = load(char_run)
    run.export(tmp_path / "half", format="safetensors", dtype="float16")
    types = {str(weight.dtype) for weight in load_file(tmp_path / "half" / "model.safetensors").values()}
    assert types == {"torch.float16"}
    assert {str(weight.dtype) for weight in run.network.parameters()} == {"torch.float32"}
    for wrong in ({"format": "word"}, {"dtype": "float8"}, {"quantise": "q4_0"}):
        with pytest.raises(ConfigError, match=r"unknown format|unknown dtype|only applies to GGUF"):
            run.export(tmp_path / "wrong", **wrong)


def test_a_run_moves_to_a_device_and_quantised_weights_stay(transformer_run: Path, tmp_path: Path) -> None:
    run = load(transformer_run, "cpu")
    assert run.to("cpu") is run
    with pytest.raises(ConfigError, match='device is "gpu", but torch finds no such device'):
        run.to("gpu")
    moved = run.to("cpu").generate("the", tokens=4, seed=0)
    run.quantise("int8")
    assert len(moved) == 4
    with pytest.raises(ConfigError, match="quantised weights cannot be exported"):
        run.export(tmp_path / "out")


def test_describe_counts_names_recipes_and_runs(firth: Firth, char_run: Path) -> None:
    run = load(char_run)
    weights = sum(parameter.numel() for parameter in run.network.parameters())
    for of in (char_run, str(char_run), run, run.recipe):
        assert describe(of).parameters == weights
    run.path = None  # as a public model has none
    assert describe(run).parameters == weights
    assert describe(find_recipe("hello"), ["model.width=4"]).parameters == describe("hello", ["model.width=4"]).parameters
    assert firth("describe", "gpt2").out == describe("gpt2").text() + "\n"
    assert "<b>" not in describe(compose(recipe_table() | {"summary": "<b>"}))._repr_html_()


def test_hello_keeps_its_promise_in_python_and_on_the_command_line(firth: Firth) -> None:
    verdict = verify(find_recipe("hello"), progress=False)
    assert verdict.passed
    told = json.loads(firth("verify", "hello", "--json").out)
    assert {**told, "recipe": "this recipe"} == {**vars(verdict), "same_text": told["same_text"]}
    assert verdict.text().startswith("passed: this recipe reached ")


def test_walk_takes_a_run_or_its_folder(char_run: Path) -> None:
    names = [stage.name for stage in load(char_run).walk("the").stages]
    assert [stage.name for stage in walk(char_run, "the").stages] == names
    assert [stage.name for stage in walk(load(char_run), "the").stages] == names


def test_compare_is_the_verb(firth: Firth) -> None:
    compared = compare("flow", length=3, size=1000, clip=0.001)
    assert compared.text() + "\n" == firth("compare", "flow", "--length", 3, "--size", 1000, "--clip", 0.001).out
    anything: Any = "flows"
    with pytest.raises(ConfigError, match=r'no comparison "flows"\. Did you mean "flow"'):
        compare(anything)


def test_playground_is_the_verb(firth: Firth, tmp_path: Path) -> None:
    rows = [("Ann", "cook"), ("Bo", "nurse")]
    (tmp_path / "table.txt").write_text("Ann → cook\nBo → nurse\n", encoding="utf-8")
    printed = json.loads(firth("playground", "--table", tmp_path / "table.txt", "--query", "Anna", "--json").out)
    for table in (rows, tmp_path / "table.txt"):
        assert json.loads(json.dumps(playground(table=table, query="Anna").facts())) == printed
    assert playground("a b", score="dot", heads=2).settings == Settings(score="dot", heads=2)
    assert SettingsKeywords.__annotations__.keys() == Settings.__dataclass_fields__.keys()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sentence": "a", "example": "roles"}, "a sentence and example cannot be combined"),
        ({"query": "a"}, 'query needs a table to look it up in. Add table, or example="roles"'),
        ({"sentence": "a b", "limit": 2}, "limit does not apply to mask=full, only to window"),
        ({"width": 4}, "width only applies to a sentence without vectors"),
        ({"matrices": {"X": [[1]]}}, "matrices need a sentence"),
        ({"seed": 1}, "seed has no effect"),
    ],
)
def test_what_does_not_fit_together_is_refused_in_the_words_of_python(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        playground(**given)
    assert message in str(error.value)
