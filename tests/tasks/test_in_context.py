"""Learning in context from recipe to run: that it learns, survives a stop to the bit, and what it refuses."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from in_context_tables import linear_table, swap_table
from shares import half
from tiny_runs import assert_stopping_changes_nothing

from firth.api import compose, load, train_recipe
from firth.api.training import train_into
from firth.config import Table
from firth.errors import ConfigError
from firth.models import size_of
from firth.models.point_regressor import PointRegressor
from firth.tasks.run import Run
from firth.training.log import read as read_log

TABLES: dict[str, Callable[..., Table]] = {"swaps": swap_table, "linear": linear_table}


@pytest.fixture(scope="module")
def swaps(tmp_path_factory: pytest.TempPathFactory) -> Run[Any]:
    return load(train_recipe(compose(swap_table()), tmp_path_factory.mktemp("in-context") / "swaps").path)


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> Run[Any]:
    """One dimension: a point tells the function, and a tiny model sees that in some hundred steps."""
    table = linear_table(steps=150, batch=32, warmup=10, log_every=100)
    table["data"] |= {"dimensions": 1, "count": 3000}
    return load(train_recipe(compose(table), tmp_path_factory.mktemp("in-context") / "linear").path)


def rows(result: dict[str, object]) -> list[dict[str, Any]]:
    by_examples = result["by_examples"]
    assert isinstance(by_examples, list)
    return by_examples


def test_it_learns_functions_from_the_points_in_its_prompt(linear: Run[Any]) -> None:
    scores = linear.evaluate()
    assert scores.keys() == {"loss", "squared_error", "prompts", "by_examples", "split"}
    assert (scores["split"], scores["prompts"]) == ("test", 300)
    error = [row["squared_error"] for row in rows(scores)]
    assert [row["examples"] for row in rows(scores)] == [0, 1, 2, 3, 4]
    assert error[-1] == scores["squared_error"]
    assert error[0] > 0.5, "what no point tells it cannot know"
    assert error[-1] < 0.5 * rows(scores)[-1]["zero"]
    assert isinstance(linear.network, PointRegressor)


def test_a_run_of_swaps_tells_accuracy_by_examples_and_its_split(swaps: Run[Any]) -> None:
    for split in ("train", "valid", "test"):
        scores = swaps.evaluate(split=split)  # type: ignore[arg-type]
        assert scores.keys() == {"loss", "accuracy", "prompts", "by_examples", "split"}
        assert scores["split"] == split
        assert [row["examples"] for row in rows(scores)] == [0, 1, 2, 3]
        assert rows(scores)[-1]["accuracy"] == scores["accuracy"]
        assert rows(scores)[0]["best"] < 0.2
        assert rows(scores)[-1]["best"] > 0.9
    assert swaps.evaluate() == swaps.evaluate(split="test")


def test_a_run_of_swaps_is_a_language_model_and_can_be_asked(swaps: Run[Any]) -> None:
    written = swaps.generate("abc>bca;bad>", tokens=3, temperature=0.0)
    assert len(written) == 3
    assert set(written) <= set("abcd;>")


@pytest.mark.parametrize("kind", half(["transformer", "lstm"]))
@pytest.mark.parametrize("name", TABLES)
def test_a_stopped_run_goes_on_to_the_bit(name: str, kind: str, tmp_path: Path) -> None:
    recipe = compose(TABLES[name](kind, evaluate_every=2, checkpoint_every=2))
    assert_stopping_changes_nothing(recipe, tmp_path, at=3)


@pytest.mark.parametrize("name", TABLES)
def test_validation_is_that_of_evaluate_and_chooses_by_the_loss(name: str, tmp_path: Path) -> None:
    folder = train_into(compose(TABLES[name]()), tmp_path / "run")
    (line,) = [line for line in read_log(folder.log) if "valid" in line]
    scores = load(folder.path).evaluate(split="valid")
    assert line["valid"] == pytest.approx({key: scores[key] for key in line["valid"]}, rel=1e-5)
    assert "loss" in line["valid"]


@pytest.mark.parametrize("name", TABLES)
def test_a_run_can_be_moved_and_its_recipe_says_what_it_was_tested_on(name: str, tmp_path: Path) -> None:
    folder = train_recipe(compose(TABLES[name](steps=2)), tmp_path / "run")
    before = load(folder.path).evaluate()
    shutil.move(folder.path, tmp_path / "moved")
    model = load(tmp_path / "moved")
    assert model.evaluate() == before
    assert model.recipe.data.sha256 is not None
    assert sum(p.numel() for p in model.network.parameters()) == size_of(
        lambda: model.task.network(model.tokenizer.vocab, model.tokenizer.vocab)
    )


@pytest.mark.parametrize(
    ("ask", "complaint"),
    [
        (lambda model: model.generate("x"), r"this run is a model that learns .* and cannot generate; it can: learn in"),
        (lambda model: model.classify(["x"]), r"this run is a model that learns .* and cannot classify; it can: learn in"),
        (lambda model: model.embed(["x"]), r"this run is a model that learns .* and cannot embed; it can: learn in"),
        (lambda model: model.attention("x"), r"this run reads numbers, so there is no text to inspect\. Use"),
        (lambda model: model.evaluate("some.txt"), r"path is some\.txt, but this run is evaluated on generated"),
    ],
)
def test_what_numbers_cannot_do_is_refused(linear: Run[Any], ask: Callable[[Run[Any]], object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        ask(linear)


TEXT: Table = {"data": {"text": "abc" * 100}, "model": {"kind": "gru"}}
REFUSED: list[tuple[Table, str]] = [
    (
        swap_table() | {"data": {"text": "ab"}},
        "data.text is running text, but in-context needs prompts of swaps. Set",
    ),
    (swap_table() | {"data": {"path": "a.txt"}}, 'data.path = "a.txt" is running text, but in-context needs prompts of swaps.'),
    (
        swap_table() | {"data": {"name": "linear"}},
        'data.name = "linear" is a set of points of linear functions, but in-context needs prompts of swaps.',
    ),
    (
        linear_table() | {"data": {"name": "swaps"}},
        'data.name = "swaps" is a set of prompts of swaps, but in-context-regression needs points of linear',
    ),
    (
        TEXT | {"data": {"name": "swaps"}},
        'data.name = "swaps" is a set of prompts of swaps, but next-token needs',
    ),
    (
        TEXT | {"data": {"text": "a", "examples": 3}},
        "data.examples only applies to in-context and in-context-regression",
    ),
    (TEXT | {"data": {"text": "a", "noise": 0.5}}, "data.noise only applies to in-context-regression; "),
    (linear_table() | {"data": {"name": "linear", "letters": 3}}, "data.letters only applies to in-context; "),
    (swap_table() | {"data": {"name": "swaps", "dimensions": 3}}, "data.dimensions only applies to in-context-regression; "),
    (swap_table() | {"data": {"name": "swaps", "locales": ["fr"]}}, "data.locales only applies to translation; "),
    (
        swap_table() | {"data": {"name": "swaps", "test_path": "a.txt"}},
        "data.test_path is 'a.txt', but held-out prompts are generated, too. Remove it.",
    ),
    (linear_table() | {"data": {"name": "linear", "valid": 0.0}}, "data.valid is 0.0, but held-out prompts are generated, too"),
    (
        swap_table() | {"tokenizer": {"kind": "bpe"}},
        "[tokenizer] has settings, but prompts are generated",
    ),
    (
        swap_table(context=30),
        "training.context is 30, but a prompt has 31 tokens (data.examples = 3).",
    ),
    (
        linear_table(context=8),
        "training.context is 8, but a prompt has 9 tokens (data.examples = 4).",
    ),
    (swap_table("lstm", carry=True), "training.carry is true, but each prompt has a task of its own"),
    (swap_table("lstm", batch_tokens=10), "training.batch_tokens = 10 only applies to translation; "),
    (linear_table(select="accuracy"), 'training.select is "accuracy"; for in-context-regression choose "loss".'),
    (
        linear_table() | {"model": {"kind": "transformer", "width": 8, "depth": 1, "heads": 2, "context": 8}},
        "training.context = 9 needs 9 positions, but model.context = 8",
    ),
    (
        linear_table() | {"model": {"kind": "lstm", "width": 8, "vectors": "v.firth"}},
        "model.embedding.vectors applies to words, but",
    ),
    (
        linear_table() | {"model": {"kind": "lstm", "width": 8, "dropout_word": 0.1}},
        "model.dropout_word applies to words, but this task reads numbers",
    ),
    (
        linear_table() | {"model": {"family": "encoder", "kind": "lstm"}},
        'objective.kind = "in-context-regression" needs model.family = "language"; it is "encoder"',
    ),
    (
        swap_table() | {"expected": {"metric": "squared_error"}},
        'expected.metric is "squared_error"; for in-context choose "loss" or "accuracy"',
    ),
]


@pytest.mark.parametrize(("table", "complaint"), REFUSED, ids=[complaint[:40] for _, complaint in REFUSED])
def test_tables_that_do_not_fit_are_refused(table: Table, complaint: str) -> None:
    with pytest.raises(ConfigError) as error:
        compose(table)
    assert complaint in str(error.value)
