"""The recipes that ship: all of them compose, and those that are compared are of equal size."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from shell import Firth, firth

from firth.api import Recipe, find_recipe
from firth.config import Table
from firth.errors import ConfigError
from firth.experiments import compare as learning
from firth.experiments.results import duration, result
from firth.models import parameters, size_of
from firth.shipped import FOLDER, recipe_path, shipped
from firth.text.config import DataConfig
from firth.text.data.running_text import prepare
from firth.text.data_set import DATA_SETS

__all__ = ["firth"]

PROMISED = {"hello", "docs-char-rnn", "docs-char-lstm", "docs-char-gru", "docs-char-mingru", "docs-char-transformer"}
PROMISED |= {"docs-char-linear", "docs-char-gla", "docs-char-based"}
PROMISED |= {f"tinyshakespeare-{kind}" for kind in ("gpt", "gpt-cpu", "lstm")}
PROMISED |= {"ptb-rnn", "ptb-lstm-medium", "ptb-lstm-large", "wikitext2-lstm", "wikitext2-transformer"}
PROMISED |= {"sst2-average"}
PROMISED |= {"ewt-pos-bilstm", "ewt-pos-transformer", "conll-ner-bilstm-crf"}
PROMISED |= {"icl-swap", "icl-swap-lstm", "icl-regression", "icl-regression-lstm"}
DOCS_VOCAB, SHAKESPEARE_VOCAB = 97, 65


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
        assert recipe.expected.minutes, "a measured result says how long it took"
        assert recipe.expected.tolerance > 0


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_shipped_recipe_says_on_which_text_it_is_measured_and_who_published(name: str) -> None:
    expected = find_recipe(name).expected
    assert expected is not None
    assert expected.split is not None
    assert (expected.published is None) == (expected.source is None)


def has_test(data: DataConfig) -> bool:
    if (
        data.name in ("dates", "prompts", "chats", "swaps", "linear", "scenes", "digits", "stories", "opinions")
        or data.test_path is not None
    ):
        return True
    if data.name == "docstrings":
        return False
    entry = DATA_SETS[str(data.name)]
    if entry.pairs is None:
        return entry.test is not None
    splits = {split.name: split for split in entry.pairs.splits}
    return splits[data.split or entry.pairs.splits[0].name].test is not None


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_recipe_with_a_named_text_is_measured_on_a_split_it_has(name: str) -> None:
    """And selected on another: where there is a test text, that is the one to report."""
    recipe = find_recipe(name)
    assert recipe.expected is not None
    if recipe.data.name not in (None, "docs"):
        reports_test = has_test(recipe.data) and recipe.expected.metric != "wic_accuracy"  # wic's own pairs have no test here
        assert recipe.expected.split == ("test" if reports_test else "valid")
        assert recipe.training.evaluate_every, "the best weights on validation are kept, so it must be looked at on the way"


def test_the_language_models_of_the_docs_are_of_equal_size() -> None:
    sizes = {kind: parameters(find_recipe(f"docs-char-{kind}").resolved().model, DOCS_VOCAB) for kind in learning.KINDS}
    assert max(sizes.values()) <= 1.02 * min(sizes.values()), sizes


def test_the_lstm_of_shakespeare_is_as_large_as_the_gpt_and_reads_the_same() -> None:
    gpt, lstm = find_recipe("tinyshakespeare-gpt").resolved(), find_recipe("tinyshakespeare-lstm").resolved()
    sizes = [parameters(recipe.model, SHAKESPEARE_VOCAB) for recipe in (gpt, lstm)]
    assert max(sizes) <= 1.01 * min(sizes), sizes
    assert (gpt.data, gpt.tokenizer) == (lstm.data, lstm.tokenizer)


def test_one_decoder_and_an_encoder_decoder_are_of_equal_size_and_read_the_same_under_the_same_budget() -> None:
    one, two = find_recipe("prompts-decoder").resolved(), find_recipe("prompts-seq2seq").resolved()
    vocab = one.tokenizer.vocab or 0
    sizes = [size_of(lambda recipe=recipe: recipe.task.network(vocab, vocab)) for recipe in (one, two)]
    assert max(sizes) <= 1.02 * min(sizes), sizes
    for table in ("data", "tokenizer", "objective", "training", "decoding"):
        assert getattr(one, table) == getattr(two, table), table


@pytest.mark.parametrize("name", ["chat-seq2seq", "chat-prefix"])
def test_those_that_chat_are_of_equal_size_and_learn_the_same_conversations_in_as_many_steps(name: str) -> None:
    one, two = find_recipe("chat-decoder").resolved(), find_recipe(name).resolved()
    vocab = one.tokenizer.vocab or 0
    sizes = [size_of(lambda recipe=recipe: recipe.task.network(vocab, vocab)) for recipe in (one, two)]
    assert max(sizes) <= 1.02 * min(sizes), sizes
    for setting in ("name", "skills", "count"):
        assert getattr(one.data, setting) == getattr(two.data, setting)
    assert one.training.steps == two.training.steps
    assert (one.tokenizer.kind, one.tokenizer.vocab) == (two.tokenizer.kind, two.tokenizer.vocab)


@pytest.mark.parametrize("name", ["icl-swap", "icl-regression"])
def test_the_two_that_learn_in_context_are_of_equal_size_and_are_asked_the_same_under_the_same_budget(name: str) -> None:
    one, two = (find_recipe(which).resolved() for which in (name, f"{name}-lstm"))
    vocab = len(";>") + getattr(one.data, "letters", 0)
    sizes = [size_of(lambda recipe=recipe: recipe.task.network(vocab, vocab)) for recipe in (one, two)]
    assert max(sizes) <= 1.02 * min(sizes), sizes
    assert (one.data, one.objective) == (two.data, two.objective)
    for setting in ("steps", "batch", "context"):
        assert getattr(one.training, setting) == getattr(two.training, setting)


@pytest.mark.parametrize(("name", "width"), [("medium", 650), ("large", 1500)])
def test_the_lstms_of_zaremba_have_the_published_shape(name: str, width: int) -> None:
    model = find_recipe(f"ptb-lstm-{name}").model
    assert (model.kind, model.width, model.depth) == ("lstm", width, 2)


def test_the_split_of_shakespeare_is_the_published_one(firth_data: Path) -> None:
    """The first nine tenths of 1,115,394 characters, rounded down."""
    recipe = find_recipe("tinyshakespeare-gpt")
    data = prepare(recipe.data, recipe.tokenizer)
    assert data.valid is not None
    assert (data.tokenizer.vocab, data.train.count, data.valid.count) == (SHAKESPEARE_VOCAB, 1_003_854, 111_540)


@pytest.mark.parametrize(
    ("name", "vocab", "counts"),
    [
        pytest.param("ptb-lstm-medium", 10_000, (929_589, 73_760, 82_430), marks=pytest.mark.long),
        pytest.param("wikitext2-lstm", 33_278, (2_088_628, 217_646, 245_569), marks=pytest.mark.long),
    ],
)
def test_words_are_counted_as_in_the_literature(name: str, vocab: int, counts: tuple[int, ...], firth_data: Path) -> None:
    recipe = find_recipe(name)
    data = prepare(recipe.data, recipe.tokenizer)
    assert data.tokenizer.vocab == vocab
    assert tuple(part.count for part in (data.train, data.valid, data.test) if part is not None) == counts


def test_the_language_models_of_the_docs_read_the_same_text_under_the_same_budget() -> None:
    recipes = [find_recipe(f"docs-char-{kind}") for kind in learning.KINDS]
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


def test_the_time_a_recipe_takes_is_told_from_what_was_measured_and_nowhere_else(firth: Firth) -> None:
    assert not [name for name, recipe in shipped().items() if re.search(r"minute|GPU|CPU|hour", recipe["summary"])]
    listed = firth("recipes").out
    assert re.search(r"^dates-rnnsearch +Translate [^\n]*\n +exact \(test\) 1.0, about 3 minutes on a CPU$", listed, re.M)
    assert re.search(r"^ptb-rnn +[^\n]*\n[^\n]* about 5 minutes on one H200$", listed, re.M)


@pytest.mark.parametrize(
    ("minutes", "phrase"),
    [(0.05, "less than a minute"), (0.8, "about 1 minute"), (2.4, "about 2 minutes"), (33.3, "about 33 minutes")],
)
def test_a_duration_has_a_phrase(minutes: float, phrase: str) -> None:
    table: Table = {"data": {"text": "a"}, "expected": {"metric": "loss", "minutes": minutes, "hardware": "2 cores"}}
    expected = result("mine", table)
    assert expected is not None
    assert duration(expected) == f"{phrase} on a CPU"
