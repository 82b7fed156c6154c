"""Output of the verbs, on stdout and stderr."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pytest
from runs import TEXT, recipe_table
from shell import Firth
from tomli_w import dumps

from firth.api import load
from firth.version import __version__


@pytest.fixture(scope="session")
def hello_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from firth.api import find_recipe, train_recipe

    return train_recipe(find_recipe("hello"), tmp_path_factory.mktemp("hello") / "run").path


def test_hello_is_trained_and_spelled(firth: Firth, tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained = firth("train", "hello", "--out", run)
    assert trained.code == 0
    assert trained.out.startswith(f"{run}: 0.0")
    assert trained.out.count("\n") == 1  # one line of result; progress is on stderr
    assert "200/200" in trained.err
    assert firth("generate", run, "h").out == "hello\n"


def test_settings_change_the_run(firth: Firth, tmp_path: Path) -> None:
    run = tmp_path / "run"
    answer = firth("train", "hello", "--out", run, "--training.steps=2", "--model.width", "8", "--data.text=hallo", "--json")
    assert answer.code == 0
    result = json.loads(answer.out)
    assert {"run", "loss", "perplexity", "bits_per_character", "split"} <= result.keys()
    recipe = load(run).recipe
    assert (recipe.training.steps, recipe.model.width, recipe.data.text) == (2, 8, "hallo")


def test_training_reads_standard_input_and_reports_on_what_it_held_out(firth: Firth, tmp_path: Path) -> None:
    recipe = tmp_path / "stdin.toml"
    recipe.write_text(dumps(recipe_table(steps=4) | {"data": {"path": "-", "valid": 0.1}}), encoding="utf-8")
    answer = firth("train", recipe, "--out", tmp_path / "run", "--json", stdin=TEXT.encode())
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["split"] == "valid"
    gone = firth("evaluate", tmp_path / "run")
    assert gone.code == 2
    assert "standard input" in gone.err
    none = firth("train", recipe, "--out", tmp_path / "other", "--data.valid=0.0", stdin=TEXT.encode())
    assert none.code == 0, none.err
    assert "nothing was held out" in none.out


def test_a_run_that_is_there_is_not_overwritten_but_resumed(firth: Firth, tmp_path: Path) -> None:
    run = tmp_path / "run"
    few = ("--training.steps=2", "--out", run)
    assert firth("train", "hello", *few, "--resume").code == 0  # an absent run is started
    again = firth("train", "hello", *few)
    assert again.code == 2
    assert "already holds a run. Add --resume to continue it or --overwrite to replace it, or choose another --out" in again.err
    assert firth("train", "hello", "--training.steps=4", "--out", run, "--resume").code == 0


def test_generate_prints_the_prompt_and_its_continuation(firth: Firth, char_run: Path) -> None:
    model = load(char_run)
    options = ("--tokens", 12, "--temperature", 0.8, "--top-k", 5, "--top-p", 0.9, "--seed", 3)
    expected = model.generate("the list", tokens=12, temperature=0.8, top_k=5, top_p=0.9, seed=3)
    answer = firth("generate", char_run, "the list", *options)
    assert (answer.code, answer.out, answer.err) == (0, f"the list{expected}\n", "")
    assert firth("generate", char_run, "-", *options, stdin=b"the list").out == answer.out
    as_json = json.loads(firth("generate", char_run, "the list", *options, "--json").out)
    assert as_json == {"prompt": "the list", "continuation": expected, "seed": 3}


def test_score_reports_the_keys_that_scripts_rely_on(firth: Firth, char_run: Path, word_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("the list is empty.")
    answer = firth("score", char_run, path, "--json")
    result = json.loads(answer.out)
    assert list(result) == ["tokens", "log_probability", "perplexity", "bits_per_character"]
    assert result["log_probability"] == load(char_run).score(["the list is empty."])[0].log_probability
    assert result["perplexity"] == pytest.approx(math.exp(-result["log_probability"] / result["tokens"]))
    assert json.loads(firth("score", char_run, "-", "--json", stdin=b"the list is empty.").out) == result
    assert json.loads(firth("score", word_run, path, "--json").out)["bits_per_character"] is None
    plain = firth("score", char_run, path)
    assert f"{result['log_probability']:.4f} nats" in plain.out
    assert "bits per character" not in firth("score", word_run, path).out


def test_evaluate_reports_the_keys_that_scripts_rely_on(firth: Firth, char_run: Path, word_run: Path, tmp_path: Path) -> None:
    result = json.loads(firth("evaluate", char_run, "--json").out)
    assert {"loss", "perplexity", "bits_per_character"} <= result.keys()
    assert result["split"] == "valid"
    path = tmp_path / "other.txt"
    path.write_text("the list has a name.\n")
    other = json.loads(firth("evaluate", char_run, "--data", path, "--json").out)
    assert (other["split"], other["tokens"]) == (str(path), 20)
    assert f"{result['loss']:.4f} nats per token" in firth("evaluate", char_run).out
    assert "undefined" in firth("evaluate", word_run).out


def test_evaluate_can_choose_the_text_the_streams_and_random_batches(firth: Firth, char_run: Path) -> None:
    options = ("--split", "train", "--streams", 3, "--random-batches", 2, "--seed", 7)
    result = json.loads(firth("evaluate", char_run, *options, "--json").out)
    assert result == load(char_run).evaluate(split="train", streams=3, random_batches=2, seed=7)
    assert (result["split"], result["streams"], result["seed"]) == ("train", 3, 7)
    shown = firth("evaluate", char_run, *options).out
    assert f"{result['tokens']:,}, read in 3 streams\n" in shown
    estimate = f"{result['loss_random']:.4f} ± {result['loss_random_error']:.4f}"
    assert f"{estimate} (2 random batches of 8 windows of 24 tokens, seed 7)\n" in shown


def test_evaluate_says_how_the_text_was_read(firth: Firth, char_run: Path, transformer_run: Path) -> None:
    assert "read as one stream\n" in firth("evaluate", char_run).out
    assert "read in windows of 24 tokens without overlap\n" in firth("evaluate", transformer_run).out
    longer = firth("evaluate", transformer_run, "--context", 48, "--rotary-scaling", "yarn")
    assert "read in windows of 48 tokens without overlap\n" in longer.out
    assert f"{load(transformer_run).evaluate(context=48, rotary_scaling='yarn')['loss']:.4f} nats" in longer.out
    assert "random" not in firth("evaluate", transformer_run).out
    assert "random" not in firth("evaluate", transformer_run, "--json").out


def test_train_reports_on_the_validation_text_and_leaves_the_test_text_to_evaluate(firth: Firth, tmp_path: Path) -> None:
    from firth.training import log

    (tmp_path / "test.txt").write_text(TEXT[:200])
    table = recipe_table(steps=6, evaluate_every=2)
    table["data"]["test_path"] = str(tmp_path / "test.txt")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(dumps(table), encoding="utf-8")
    answer = firth("train", recipe, "--out", tmp_path / "run", "--json")
    assert answer.code == 0, answer.err
    result = json.loads(answer.out)
    losses = [line["valid"]["loss"] for line in log.read(tmp_path / "run" / "log.jsonl") if "valid" in line]
    assert len(losses) == 3
    assert (result["split"], result["loss"]) == ("valid", min(losses))
    assert json.loads(firth("evaluate", tmp_path / "run", "--json").out)["split"] == "test"


def test_complete_shows_both_shares(firth: Firth, char_run: Path) -> None:
    text = "the __ is empty."
    completions = json.loads(firth("complete", char_run, text, "--candidates", "list,set,name", "--json").out)
    assert {c["filler"] for c in completions} == {"list", "set", "name"}
    keys = {"filler", "log_probability", "probability_given_left", "share", "share_given_left"}
    assert all(c.keys() == keys for c in completions)
    table = firth("complete", char_run, text, "--candidates", "list,set,name").out
    assert [line.split()[0] for line in table.splitlines()[1:]] == [c["filler"] for c in completions]
    assert "share by left alone" in table
    assert firth("complete", char_run, text, "--proposals", 3).code == 0


def test_a_filler_is_printed_as_it_is(firth: Firth, bpe_run: Path) -> None:
    """Not read as markup: [bold] is what somebody asked about."""
    assert "[bold]" in firth("complete", bpe_run, "the __.", "--candidates", "[bold],list").out


def test_words_never_seen_are_noted_on_stderr(firth: Firth, word_run: Path) -> None:
    answer = firth("generate", word_run, "the zebra", "--tokens", 3)
    assert answer.code == 0
    assert answer.err == "firth: note: read as <unk>, never seen in training: zebra\n"
    assert "note" not in answer.out


@pytest.fixture
def promised(tmp_path: Path) -> Path:
    """A recipe of a second with the result it really gives."""
    from firth.api import compose, train_recipe

    table = recipe_table(steps=5)
    run = train_recipe(compose(table), tmp_path / "once").path
    measured = load(run).evaluate()["bits_per_character"]
    table["expected"] = {"metric": "bits_per_character", "measured": measured, "published": 1.0, "tolerance": 0.001}
    path = tmp_path / "promised.toml"
    path.write_text(dumps(table), encoding="utf-8")
    return path


def falsified(path: Path) -> Path:
    import tomllib

    table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    table["expected"]["measured"] -= 10 * table["expected"]["tolerance"]
    false = path.with_name("false.toml")
    false.write_text(dumps(table), encoding="utf-8")
    return false


def test_verify_passes_what_gives_what_it_promises_and_fails_what_does_not(firth: Firth, promised: Path) -> None:
    answer = firth("verify", promised, "--json")
    verdict = json.loads(answer.out)
    relied_on = ["recipe", "metric", "measured", "expected", "published", "tolerance", "passed", "same_text"]
    assert list(verdict)[: len(relied_on)] == relied_on
    assert (verdict["split"], verdict["measured_random"]) == ("valid", None)
    assert (answer.code, verdict["passed"]) == (0, True)
    assert verdict["measured"] == pytest.approx(verdict["expected"], abs=1e-9)
    gap = verdict["measured"] - 1.0
    assert verdict["gap"] == gap
    false = firth("verify", falsified(promised))
    assert false.code == 1
    assert false.out.startswith("FAILED: ")
    assert f"published 1.0, a gap of {gap:+.4f}" in false.out  # the gap is always printed


@pytest.mark.parametrize("same", [True, False])
def test_verify_says_when_the_text_is_not_the_one_that_was_measured(firth: Firth, promised: Path, same: bool) -> None:
    import tomllib

    table = tomllib.loads(promised.read_text(encoding="utf-8"))
    text = table["data"]["text"].encode()
    table["expected"]["sha256"] = hashlib.sha256(text if same else text + b"x").hexdigest()
    promised.write_text(dumps(table), encoding="utf-8")
    assert json.loads(firth("verify", promised, "--json").out)["same_text"] is same
    assert ("the text differs" in firth("verify", promised).out) is not same


def test_verify_measures_on_the_text_and_by_the_protocol_that_the_recipe_names(firth: Firth, promised: Path) -> None:
    import tomllib

    from firth.api import compose, train_recipe

    table = tomllib.loads(promised.read_text(encoding="utf-8"))
    once = load(train_recipe(compose(table), promised.parent / "again").path).evaluate(split="train", random_batches=3)
    expected = {"metric": "loss", "split": "train", "measured": once["loss"], "random_batches": 3, "measured_random": 9.9}
    promised.write_text(dumps(table | {"expected": expected}), encoding="utf-8")
    answer = firth("verify", promised, "--json")
    verdict = json.loads(answer.out)
    assert (answer.code, verdict["split"], verdict["published"], verdict["gap"]) == (0, "train", None, None)
    assert verdict["measured"] == pytest.approx(once["loss"], abs=1e-9)
    assert (verdict["measured_random"], verdict["expected_random"]) == (pytest.approx(once["loss_random"], abs=1e-9), 9.9)
    shown = firth("verify", promised).out
    assert "on the train split\n" in shown
    assert f"over random batches {once['loss_random']:.4f}, expected 9.9\n" in shown
    assert "published" not in shown


def test_better_than_promised_fails_too(firth: Firth, promised: Path) -> None:
    text = promised.read_text(encoding="utf-8")
    import tomllib

    table = tomllib.loads(text)
    table["expected"]["measured"] += 1.0
    promised.write_text(dumps(table), encoding="utf-8")
    assert firth("verify", promised).code == 1


def test_a_recipe_that_promises_nothing_cannot_be_verified(firth: Firth, tmp_path: Path) -> None:
    path = tmp_path / "silent.toml"
    path.write_text(dumps(recipe_table()), encoding="utf-8")
    answer = firth("verify", path)
    assert answer.code == 2
    assert "has no [expected] measured value to verify" in answer.err


def test_version_and_help_are_printed(firth: Firth) -> None:
    assert firth("--version").out == f"firth {__version__}\n"
    text = firth("--help").out
    for verb in ("tour", "train", "verify", "evaluate", "generate", "score", "complete", "recipes", "results"):
        assert f"\n  {verb} " in text
    assert firth().out == text
    assert "--top-p" in firth("generate", "--help").out
