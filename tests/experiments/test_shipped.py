"""The recipes that ship: all of them compose, and those that are compared are of equal size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell import Firth, firth

from firth.api import Recipe
from firth.errors import ConfigError
from firth.experiments.shipped import FOLDER, find_recipe, recipe_path, shipped
from firth.models import parameters

__all__ = ["firth"]

PROMISED = {"hello", "docs-char-rnn", "docs-char-lstm", "docs-char-gru", "docs-char-transformer"}  # house.md
DOCS_VOCAB = 97


def test_the_promised_recipes_are_there() -> None:
    assert shipped().keys() >= PROMISED


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_shipped_recipe_composes(name: str) -> None:
    recipe = find_recipe(name)
    assert isinstance(recipe, Recipe)
    assert recipe.summary
    assert "PLACEHOLDER" not in recipe.summary
    if recipe.expected is not None and recipe.expected.measured is not None:
        assert recipe.expected.hardware, "a measured result says where it was measured"
        assert recipe.expected.date, "a measured result says when it was measured"
        assert recipe.expected.tolerance > 0


def test_the_four_generations_are_of_equal_size() -> None:
    sizes = {
        kind: parameters(find_recipe(f"docs-char-{kind}").resolved().model, DOCS_VOCAB)
        for kind in ("rnn", "lstm", "gru", "transformer")
    }
    assert max(sizes.values()) <= 1.02 * min(sizes.values()), sizes


def test_the_four_generations_read_the_same_text_under_the_same_budget() -> None:
    recipes = [find_recipe(f"docs-char-{kind}") for kind in ("rnn", "lstm", "gru", "transformer")]
    for recipe in recipes:
        assert recipe.data == recipes[0].data
        assert recipe.tokenizer == recipes[0].tokenizer
        for name in ("steps", "batch", "context"):
            assert getattr(recipe.training, name) == getattr(recipes[0].training, name)


def test_recipes_lists_all_of_them_with_what_they_promise(firth: Firth) -> None:
    answer = firth("recipes")
    listed = {line.split()[0] for line in answer.out.splitlines() if not line.startswith(" ")}
    assert listed == shipped().keys() == {path.stem for path in FOLDER.iterdir() if path.suffix == ".toml"}
    assert json.loads(firth("recipes", "--json").out) == shipped()


def test_a_file_of_ones_own_is_a_recipe_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text('[data]\ntext = "some text"\n[model]\nkind = "gru"\n')
    assert find_recipe("mine.toml", ["--model.width=8"]).model.width == 8
    assert recipe_path("hello") == FOLDER / "hello.toml"  # a shipped name needs no file
    with pytest.raises(ConfigError, match='no recipe "mine"'):
        recipe_path("mine")
