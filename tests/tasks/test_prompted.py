"""A decoder with a prefix mask, and summaries, from recipe to run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny_runs import assert_stopping_changes_nothing
from translations import pair_table, pairs_of, spaced, write_pairs

from firth.api import compose, load, train_recipe
from firth.config import Table
from firth.errors import ConfigError
from firth.models import PrefixDecoder

JOINT = {"kind": "word", "joint": True}
TASKS = {"again", "names"}


def prefix_table(path: Path, **training: Any) -> Table:
    table = pair_table(path, "transformer", tokenizer=JOINT, **({"steps": 100, "rate": 0.005} | training))
    table["model"] = {"family": "seq2seq", "kind": "prefix", "width": 32, "depth": 2, "heads": 2}
    return table


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks by prompt: the names of two digits, and the digits again."""
    folder = tmp_path_factory.mktemp("prompted")
    numbers = pairs_of([str(number) for number in range(10, 100)])
    pairs = [(f"{task}: {source}", target if task == "names" else source) for source, target in numbers for task in sorted(TASKS)]
    table = prefix_table(write_pairs(folder / "p.tsv", pairs), steps=120, rate=0.01)
    return train_recipe(compose(table), folder / "run").path


def test_one_decoder_learns_two_tasks_by_prompt(run: Path) -> None:
    model = load(run)
    assert isinstance(model.network, PrefixDecoder)
    scores: Any = model.evaluate(split="train")
    tasks = {task["task"]: task for task in scores["tasks"]}
    assert tasks.keys() == TASKS
    assert all(task["exact"] > 0.9 for task in tasks.values())
    assert sum(task["sentences"] for task in tasks.values()) == scores["sentences"] == 162


def test_a_translation_is_the_same_whatever_it_is_written_with(run: Path) -> None:
    model, texts = load(run), ["names: 4 0", "again: 4", "again: 1 2 3", "names: 9 9 1 5"]
    for beam in (1, 3):
        assert model.translate(texts, beam=beam) == [model.translate([text], beam=beam)[0] for text in texts]


def test_its_attention_to_the_prompt_is_an_alignment(run: Path) -> None:
    aligned = load(run).align("names: 4 0 7", "four zero seven")
    assert aligned.source == ("names:", "4", "0", "7", "<eos>")
    assert aligned.target == ("four", "zero", "seven", "<eos>")
    assert aligned.best.sum(1) == pytest.approx([1.0] * 4)


def test_a_run_that_was_stopped_goes_on_to_the_bit(tmp_path: Path) -> None:
    table = prefix_table(write_pairs(tmp_path / "p.tsv"), steps=10, evaluate_every=5, checkpoint_every=4)
    recipe = compose(table, ["model.dropout=0.1", "training.average=0.9"])
    assert_stopping_changes_nothing(recipe, tmp_path, at=6)


def test_learned_positions_hold_both_sides_and_longer_sources_are_said(tmp_path: Path) -> None:
    table = prefix_table(write_pairs(tmp_path / "p.tsv"), steps=2, context=6)
    model = load(train_recipe(compose(table, ["model.position=learned"]), tmp_path / "run").path)
    assert model.network.context == 14
    with pytest.warns(UserWarning, match="1 of 1 sources have more than 6 tokens"):
        model.translate([spaced("123456789")])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["tokenizer.joint=false"], r'model\.kind = "prefix" needs one vocabulary for both sides\.'),
        (["model.context=49"], r"training\.context = 24 needs 50 positions"),
        (["model.encoder_depth=2"], 'unknown key "model.encoder_depth"'),
        (
            ["training.select=rougeL"],
            r'training\.select is "rougeL", which is only measured for',
        ),
    ],
)
def test_what_does_not_fit_is_refused(changes: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compose(prefix_table(Path("p.tsv")), changes)


@pytest.mark.long
def test_summaries_are_measured_by_rouge_where_the_recipe_asks(tmp_path: Path) -> None:
    """A document of digits with noise between them, summarised by the names of the first three."""
    pairs = [(f"{source} and so on and so on", " ".join(target.split()[:3])) for source, target in pairs_of()]
    table = pair_table(write_pairs(tmp_path / "p.tsv", pairs), "rnnsearch", evaluate_every=60, select="rougeL")
    table["objective"]["rouge"] = True
    table["expected"] = {"metric": "rougeL", "direction": "higher"}
    model = load(train_recipe(compose(table), tmp_path / "run").path)
    scores: Any = model.evaluate(split="valid")
    assert scores["rouge1"] > 90
    assert scores["rouge2"] > 80
    assert scores["rougeL"] > 90
    assert load(tmp_path / "run").recipe.objective.rouge  # type: ignore[union-attr]


def test_rouge_is_not_promised_of_translations() -> None:
    table = pair_table(Path("p.tsv")) | {"expected": {"metric": "rouge1"}}
    with pytest.raises(ConfigError, match=r'expected\.metric is "rouge1", which is only measured for'):
        compose(table)
