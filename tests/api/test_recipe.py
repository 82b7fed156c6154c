"""Recipes: composed, overridden, resolved, and read back as they were written."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import recipe_table

from firth.api import Recipe, compose
from firth.api.recipe import read_recipe
from firth.config import Table, to_toml
from firth.errors import ConfigError
from firth.models import RecurrentConfig, TransformerConfig
from firth.tasks.translation import TranslationConfig


def transformer_table() -> Table:
    return recipe_table(model="transformer")


def test_tables_that_are_left_out_have_defaults() -> None:
    recipe = compose({"data": {"text": "some text"}, "model": {"kind": "lstm"}})
    assert isinstance(recipe.model, RecurrentConfig)
    assert (recipe.tokenizer.kind, recipe.training.steps, recipe.decoding.temperature) == ("char", 1000, 1.0)
    assert recipe.expected is None


def test_settings_override_anything() -> None:
    recipe = compose(transformer_table(), ["--model.depth=3", "training.rate=0.5", "decoding.top_k=4", "model.position=learned"])
    assert isinstance(recipe.model, TransformerConfig)
    assert (recipe.model.depth, recipe.model.position.kind, recipe.training.rate, recipe.decoding.top_k) == (3, "learned", 0.5, 4)


def test_another_kind_of_model_takes_another_config() -> None:
    table = {"data": {"text": "some text"}, "model": {"kind": "lstm"}}
    assert isinstance(compose(table, ["model.kind=transformer", "model.attention.heads=2"]).model, TransformerConfig)


@pytest.mark.parametrize("setting", ["data.path=my.txt", "data.text=abc", "data.name=docs"])
def test_a_new_source_of_text_takes_the_place_of_the_old(setting: str) -> None:
    data = compose(recipe_table(), [setting]).data
    key, value = setting.removeprefix("data.").split("=")
    assert {name: getattr(data, name) for name in ("name", "path", "text") if getattr(data, name) is not None} == {key: value}


def test_an_overridden_recipe_promises_nothing() -> None:
    table = recipe_table() | {"expected": {"metric": "loss", "measured": 1.0}}
    assert compose(table).expected is not None
    assert compose(table, ["training.steps=3"]).expected is None


def test_an_overridden_recipe_says_what_was_changed() -> None:
    table = {"summary": "A GRU", "data": {"text": "abc"}, "model": {"kind": "gru"}}
    assert compose(table).summary == "A GRU"
    assert compose(table, ["model.width=8", "--training.steps=2"]).summary == "A GRU; changed: model.width, training.steps"


def test_a_width_that_leaves_the_hidden_layer_behind_is_noted() -> None:
    table = {"data": {"text": "abc"}, "model": {"kind": "transformer", "width": 96, "heads": 3, "hidden": 288}}
    with pytest.warns(
        UserWarning, match="model.feedforward.hidden is still 288, which was chosen for model.width = 96; now model.width = 24"
    ):
        compose(table, ["model.width=24"])
    assert compose(table, ["model.width=24", "model.feedforward.hidden=96"]).model.feedforward.hidden == 96
    both = compose(table, [("model.width", 24), ("model.feedforward", {"hidden": 96})])  # as Python hands them on
    assert both.model.feedforward.hidden == 96
    assert both.summary == ""


def test_composing_leaves_the_table_as_it_was() -> None:
    table = recipe_table()
    compose(table, ["data.path=x.txt", "model.width=64"])
    assert table == recipe_table()


def test_a_resolved_recipe_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = compose(transformer_table(), ["data.path=a.txt", "data.valid_path=b.txt"])
    resolved = recipe.resolved()
    assert isinstance(resolved.model, TransformerConfig)
    assert resolved.model.context == recipe.training.context
    assert (resolved.data.path, resolved.data.valid_path) == (str(tmp_path / "a.txt"), str(tmp_path / "b.txt"))
    assert resolved.resolved() == resolved


def test_standard_input_is_not_a_path() -> None:
    assert compose(recipe_table(), ["data.path=-"]).resolved().data.path == "-"


@pytest.mark.parametrize("table", [recipe_table(), transformer_table(), recipe_table("bpe")], ids=["gru", "transformer", "bpe"])
def test_a_recipe_is_read_back_as_it_was_written(table: Table, tmp_path: Path) -> None:
    recipe = compose(table | {"expected": {"metric": "perplexity", "measured": 2.5, "date": "2025-01-01"}}).resolved()
    path = tmp_path / "recipe.toml"
    path.write_text(recipe.toml(), encoding="utf-8")
    assert read_recipe(path) == recipe


def test_text_with_quotes_newlines_and_other_scripts_survives_toml(tmp_path: Path) -> None:
    text = "say \"hi\"\n\ttab \\ back'slash''' 日本 \x7f\u2028"
    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(compose({"data": {"text": text}, "model": {"kind": "rnn"}})), encoding="utf-8", newline="\n")
    assert read_recipe(path).data.text == text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["model.dept=3"], 'unknown key "model.dept" in "model". Did you mean "depth"?'),
        (["trainning.steps=3"], 'unknown key "trainning". Did you mean "training"?'),
        (["model.depth=three"], "\"model.depth\" is 'three'; expected a whole number."),
        (
            ["model.attention.heads=5"],
            "model.attention.heads = 5 does not divide model.width = 32; try model.attention.heads = 4",
        ),
        (["model.context=8"], "training.context = 24 needs 24 positions, but model.context = 8. Raise model.context"),
        (["data.text=a", "data.path=b"], "data.path and data.text are set. Set only one of"),
        (["training.schedule=cosin"], 'Did you mean "cosine"?'),
        (["depth=6"], '"depth=6" is not a setting. Write --table.key=value'),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_does_not_fit_is_said_in_full(settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        compose(transformer_table(), settings)
    assert message in str(error.value)


def test_a_recipe_is_a_value() -> None:
    assert compose(recipe_table()) == compose(recipe_table())
    assert isinstance(compose(recipe_table()), Recipe)


def test_a_transformer_that_is_to_carry_is_refused_when_the_recipe_is_read() -> None:
    table = {"data": {"text": "abc"}, "model": {"kind": "transformer"}, "training": {"carry": True}}
    with pytest.raises(ConfigError, match=r"training\.carry is true, but a Transformer has no state"):
        compose(table)


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        (
            {"metric": "perplexity", "random_batches": 200},
            r'random_batches is 200 with expected\.metric = "perplexity"; .*"loss"',
        ),
        ({"metric": "loss", "random_batches": 0}, "random_batches is 0 .* expected 1 or more"),
        ({"metric": "bleu", "seeds": 3}, r"expected\.seeds is 3 and expected\.spread is None\. Set both"),
        ({"metric": "bleu", "spread": 0.4}, r"expected\.seeds is None and expected\.spread is 0\.4\. Set both"),
        ({"metric": "bleu", "seeds": 1, "spread": 0.0}, r"expected\.seeds is 1 and expected\.spread is 0\.0\. Set both \(two"),
        ({"metric": "loss", "measured_random": 1.5}, r"expected\.measured_random needs the number of batches\. Set"),
        ({"metric": "loss", "split": "tset"}, '"expected.split" is \'tset\'; expected one of .*Did you mean "test"'),
    ],
)
def test_what_is_expected_must_say_how_it_is_measured(expected: Table, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compose(recipe_table() | {"expected": expected})


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("data.name=multi30k", r'data\.name = "multi30k" is a set of sentence pairs, but'),
        ("data.name=dates", r'data\.name = "dates" is a set of sentence pairs, but'),
        ("data.lower=true", r"data\.lower only applies to translation; objective\.kind is"),
        ("data.target=en", r"data\.target only applies to translation; objective\.kind is"),
        ("tokenizer.joint=true", r"tokenizer\.joint = true only applies to translation;"),
    ],
)
def test_sentence_pairs_are_not_for_models_of_single_texts(setting: str, message: str) -> None:
    table = {"data": {"text": "abc"}, "model": {"family": "language", "kind": "gru"}}
    with pytest.raises(ConfigError, match=message):
        compose(table, [setting])


@pytest.mark.parametrize(
    ("model", "data", "learned"),
    [
        ({"kind": "gru"}, {"text": "some text"}, "next-token"),
        ({"family": "language", "kind": "gru"}, {"text": "some text"}, "next-token"),
        ({"family": "encoder", "kind": "average"}, {"path": "reviews.csv"}, "classification"),
        ({"family": "seq2seq", "kind": "gru"}, {"name": "dates"}, "translation"),
    ],
    ids=str,
)
def test_a_family_says_what_is_learned_where_the_recipe_does_not(model: Table, data: Table, learned: str) -> None:
    assert compose({"data": data, "model": model}).objective.kind == learned
    if learned == "translation":
        smoothed = compose({"data": data, "model": model, "objective": {"smoothing": 0.1}})
        assert smoothed.objective == TranslationConfig(smoothing=0.1)
