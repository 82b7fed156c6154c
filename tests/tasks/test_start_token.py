"""<start>: log p of a text over characters counts its first character, too."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import assert_identical, outcome, undisturbed

import firth
from firth.api import compose, train_recipe
from firth.api.training import train_into
from firth.errors import ConfigError
from firth.text.batches.windows import Streams, Windows

TABLE: dict[str, Any] = {
    "data": {"text": "ab" * 40 + "ba" * 40, "valid": 0.2},
    "tokenizer": {"start": True},
    "model": {"kind": "gru", "width": 8},
    "training": {"steps": 60, "batch": 8, "context": 6, "rate": 0.02, "device": "cpu"},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return firth.load(train_recipe(compose(TABLE), tmp_path_factory.mktemp("runs") / "started").path, "cpu")


def test_the_vocabulary_has_a_start_token(run: Any) -> None:
    assert [run.tokenizer.token(id) for id in range(run.tokenizer.vocab)] == ["a", "b", "<start>"]
    assert run.start_ids().tolist() == [2]


def test_the_score_is_the_sum_over_all_characters(run: Any) -> None:
    """Against a loop over the network's own outputs, in float64."""
    (score,) = run.score(["abba"])
    network = run.network.double()
    try:
        expected, ids = 0.0, [2, 0, 1, 1, 0]
        for at in range(1, len(ids)):
            logits, _ = network(torch.tensor([ids[:at]]))
            expected += torch.log_softmax(logits[0, -1], -1)[ids[at]].item()
    finally:
        run.network.float()
    assert score.tokens == 4
    assert score.log_probability == pytest.approx(expected, abs=1e-4)
    assert score.bits_per_character == pytest.approx(-expected / math.log(2) / 4, abs=1e-4)


def test_the_probabilities_of_all_texts_of_a_length_add_up_to_one(run: Any) -> None:
    """All but what is left for <start> itself, which never follows anything."""
    texts = ["".join(letters) for letters in itertools.product("ab", repeat=3)]
    total = sum(math.exp(score.log_probability) for score in run.score(texts))
    assert 0.97 < total <= 1 + 1e-5


def test_a_text_of_one_character_has_a_score(run: Any) -> None:
    assert run.score(["a"])[0].tokens == 1


def test_generated_text_has_no_start_token(run: Any) -> None:
    assert set(run.generate("", tokens=50, seed=3)) <= set("ab")


def test_the_start_token_is_no_part_of_a_text(run: Any) -> None:
    assert run.tokenizer.decode([2, 0, 1, 2, 1]) == "abb"
    assert list(run.tokenizer.spell(iter([2, 0, 1]))) == ["", "a", "b"]
    assert run.states("ab").levels[0].tokens == ("<start>", "a", "b")


@pytest.mark.parametrize("seek", [0, 3])
def test_every_eighth_window_begins_with_start_wherever_training_resumes(seek: int) -> None:
    windows = Windows(np.arange(100), 5, 4, seed=0, start=200)
    windows.seek(seek)
    begun = [bool(row[0] == 200) for _ in range(8) for row in windows.next().input_BT]
    assert begun == [(seek * 5 + number) % 8 == 0 for number in range(40)]


def test_only_the_first_token_of_a_window_or_of_a_fresh_stream_is_replaced() -> None:
    for kind in (Windows, Streams):
        plain, started = kind(np.arange(100), 8, 4, 0), kind(np.arange(100), 8, 4, 0, start=200)
        for number in range(6):
            expected, batch = plain.next(), started.next()
            assert (batch.target_BT == expected.target_BT).all()
            assert (batch.input_BT[:, 1:] == expected.input_BT[:, 1:]).all()
            changed = (batch.input_BT[:, 0] != expected.input_BT[:, 0]).tolist()
            assert changed == ([True] + [False] * 7 if kind is Windows else [number % started.per_epoch == 0] * 8)


def test_a_run_from_before_there_was_a_start_token_resumes_without_one(tmp_path: Path) -> None:
    short = {**TABLE, "training": {**TABLE["training"], "steps": 4, "checkpoint_every": 2}}
    expected = undisturbed(compose({**short, "tokenizer": {"start": False}}), tmp_path / "old")
    recipe = tmp_path / "old" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("start = false\n", ""))
    for tokenizer in ({}, {"start": False}):
        (tmp_path / "old" / "checkpoints" / "step-00000004.safetensors").unlink()
        train_recipe(compose({**short, "tokenizer": tokenizer}), tmp_path / "old", resume=True)
        assert_identical(outcome(tmp_path / "old")["checkpoint"], expected["checkpoint"])
    with pytest.raises(ConfigError, match=r"the run was started with tokenizer\.start = False; now it is True"):
        train_recipe(compose(short), tmp_path / "old", resume=True)


def test_a_new_run_over_one_text_has_a_start_token_and_keeps_it(tmp_path: Path) -> None:
    recipe = compose({**TABLE, "tokenizer": {}, "training": {**TABLE["training"], "steps": 2}})
    folder = train_into(recipe, tmp_path / "run")
    run: Any = firth.load(folder.path, "cpu")
    assert [run.tokenizer.token(id) for id in range(run.tokenizer.vocab)] == ["a", "b", "<start>"]
    assert run.score(["ab"])[0].tokens == 2
    assert "start = true" in folder.recipe.read_text()
    train_recipe(recipe, tmp_path / "run", resume=True)
    with pytest.raises(ConfigError, match=r"the run was started with tokenizer\.start = True; now it is False"):
        train_recipe(compose({**TABLE, "tokenizer": {"start": False}}), tmp_path / "run", resume=True)
    further = compose({**TABLE, "tokenizer": {}, "training": {**TABLE["training"], "steps": 2, "init": str(folder.path)}})
    tuned: Any = firth.load(train_recipe(further, tmp_path / "tuned").path, "cpu")
    assert tuned.start_ids().tolist() == [2]
    bpe = {**TABLE, "tokenizer": {"kind": "bpe"}, "training": {"init": str(folder.path)}}
    with pytest.raises(ConfigError, match=r"tokenizer\.kind is 'char' there and 'bpe' here"):
        train_recipe(compose(bpe), tmp_path / "other")
    with pytest.raises(ConfigError, match=r"tokenizer\.start is True there and False here"):
        train_recipe(
            compose({**TABLE, "tokenizer": {"start": False}, "training": {"init": str(folder.path)}}), tmp_path / "other"
        )


def test_where_the_text_has_documents_eos_takes_its_place(tmp_path: Path) -> None:
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("ab" * 40)
    table = {**TABLE, "data": {"path": str(tmp_path / "*.txt")}, "tokenizer": {}}
    run: Any = firth.load(
        train_recipe(compose({**table, "training": {**TABLE["training"], "steps": 2}}), tmp_path / "run").path, "cpu"
    )
    assert [run.tokenizer.token(id) for id in range(run.tokenizer.vocab)] == ["a", "b", "<eos>"]
    assert run.score(["ab"])[0].tokens == 2


def test_a_classifier_that_starts_from_a_language_model_puts_no_start_token_before_its_texts(tmp_path: Path) -> None:
    first = train_recipe(compose({**TABLE, "training": {**TABLE["training"], "steps": 2}}), tmp_path / "first")
    (tmp_path / "texts.tsv").write_text("text\tlabel\n" + "abab\tyes\nbaba\tno\n" * 8)
    table = {
        "data": {"path": str(tmp_path / "texts.tsv"), "valid": 0.25},
        "model": {"family": "encoder", "kind": "gru", "width": 8},
        "objective": {"kind": "classification"},
        "training": {"steps": 2, "batch": 4, "context": 6, "device": "cpu", "init": str(first.path)},
    }
    run: Any = firth.load(train_recipe(compose(table), tmp_path / "run").path, "cpu")
    assert run.classify(["ab"])[0].label in ("yes", "no")
    assert run.recipe.tokenizer.start is None


def test_other_tokenizers_and_tasks_have_no_start_token(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'tokenizer\.start is true, but tokenizer\.kind is "bpe"'):
        compose({**TABLE, "tokenizer": {"kind": "bpe", "start": True}})
    with pytest.raises(ConfigError, match=r"tokenizer\.start"):
        compose({**TABLE, "tokenizer": {"start": True}, "model": {"family": "encoder", "kind": "gru"},
                 "objective": {"kind": "masked"}})  # fmt: skip


def test_without_it_the_first_character_is_not_counted(tmp_path: Path) -> None:
    recipe = compose({**TABLE, "tokenizer": {"start": False}, "training": {**TABLE["training"], "steps": 2}})
    run: Any = firth.load(train_recipe(recipe, tmp_path / "run").path, "cpu")
    assert run.tokenizer.vocab == 2
    assert run.score(["ab"])[0].tokens == 1  # the vocabulary has no newline to begin with
