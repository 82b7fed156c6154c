"""Answer spans from recipe to run: learned in seconds, loaded as they were, resumed to the bit; and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from questions import RECORDS, answer_table, trained_on_questions, write_questions
from tiny_runs import assert_stopping_changes_nothing, watching

import firth
from firth.api import compose, load, train_recipe
from firth.config import Table
from firth.errors import ConfigError, DataError, FirthError
from firth.training.log import read as read_log

CONTEXT = "Bert lives in Rome . Dora lives in New York ."


@pytest.fixture(scope="module")
def run() -> Path:
    return trained_on_questions()


def test_it_learns_who_lives_where(run: Path) -> None:
    model = firth.load(run)
    measured = model.evaluate(split="valid")
    assert (measured["exact"], measured["f1"], measured["questions"]) == (1.0, 1.0, 80)
    answer = model.answer("Where does Dora live ?", CONTEXT)
    assert (answer.text, answer.start) == ("New York", CONTEXT.index("New York"))
    assert model.answer("Where does Bert live ?", CONTEXT).text == "Rome"
    assert 0.5 < answer.probability < 1


def test_a_text_of_several_windows_is_read(run: Path) -> None:
    """The answer itself does not matter, because the run has learned from one window alone. Its place is that in the text."""
    model, far = load(run), "Emil lives in Oslo . Carl lives in Bern . " * 8 + "Dora lives in New York ."
    answer = model.answer("Where does Dora live ?", far)
    assert far[answer.start : answer.start + len(answer.text)] == answer.text
    assert 0 < answer.probability < 1


def test_the_log_tells_exact_match_and_f1(run: Path) -> None:
    valid = [line["valid"] for line in read_log(run / "log.jsonl") if "valid" in line]
    assert len(valid) == 2
    assert valid[-1].keys() == {"loss", "exact", "f1", "questions", "windows"}


@pytest.mark.parametrize(
    ("model", "more"),
    [
        ({"kind": "gru", "width": 16}, ["training.select=exact"]),
        ({"kind": "transformer", "width": 16, "depth": 1, "heads": 2, "position": "learned"}, ["tokenizer.kind=char"]),
    ],
    ids=["gru", "learned positions, characters"],
)
def test_other_readers_are_trained_and_loaded_as_they_were(model: Table, more: list[str], tmp_path: Path) -> None:
    table = answer_table(write_questions(tmp_path / "q.json", RECORDS[:40]), steps=3, context=64, batch=8)
    table["model"] = {"family": "encoder"} | model
    loaded = load(train_recipe(compose(table, more), tmp_path / "run").path)
    last = read_log(tmp_path / "run" / "log.jsonl")[-1]["valid"]
    assert loaded.evaluate(split="valid")["loss"] == pytest.approx(last["loss"], rel=1e-5)
    assert loaded.answer("Where does Anna live ?", RECORDS[0]["context"]).text in RECORDS[0]["context"]


def test_contexts_that_do_not_fit_are_said(tmp_path: Path) -> None:
    said: list[str] = []
    table = answer_table(write_questions(tmp_path / "q.jsonl", RECORDS[:40]), steps=1, context=15)
    train_recipe(compose(table), tmp_path / "run", watcher=watching(notice=said.append))
    assert len(said) == 1
    assert "training contexts do not fit into 15 tokens with their question" in said[0]


def test_a_run_that_was_stopped_goes_on_to_the_bit(tmp_path: Path) -> None:
    table = answer_table(write_questions(tmp_path / "q.jsonl", RECORDS[:60]), steps=14, evaluate_every=5, checkpoint_every=4)
    recipe = compose(table, ["model.dropout=0.1", "training.batch=8"])
    assert_stopping_changes_nothing(recipe, tmp_path, at=7)


def test_another_file_is_measured(run: Path, tmp_path: Path) -> None:
    wrong = RECORDS[0] | {"answers": {"text": ["lives"], "answer_start": [RECORDS[0]["context"].index("lives")]}}
    path = write_questions(tmp_path / "other.json", [RECORDS[1], wrong])
    measured = load(run).evaluate(path)
    assert (measured["exact"], measured["split"]) == (0.5, str(path))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.classify(["a"]), r"this run is a question.* and cannot classify; it can: "),
        (lambda model: model.generate("a"), r"this run is a question.* and cannot generate; it can: "),
        (lambda model: model.answer("Where ?", "  "), r"the context is '  ', which has no tokens; expected at least"),
        (lambda model: model.answer("", "a"), r"the question is '', which has no tokens; expected at least"),
        (lambda model: model.answer("Where " * 40, "Anna"), r"the question: a question of 40 tokens leaves no room for its"),
    ],
    ids=range(5),
)
def test_what_it_cannot_do_is_said(call: Any, message: str, run: Path) -> None:
    with pytest.raises(FirthError, match=message):
        call(load(run))


def test_words_never_seen_are_said(run: Path) -> None:
    with pytest.warns(UserWarning, match=r"^read as <unk>, never seen in training: Fred, Paris$"):
        load(run).answer("Where does Fred live ?", "Fred lives in Paris .")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": {"name": "sst2"}}, r'data\.name = "sst2" is a set of labelled texts, but answer'),
        ({"data": {"text": "abc"}}, r"data\.text is running text, but answer needs questions\. Set"),
        ({"model": {"family": "encoder", "kind": "average"}}, r'model\.kind = "average" reads each token by itself, whatever'),
        (
            {"model": {"family": "encoder", "kind": "transformer", "context": 8}},
            r"training\.context = 32 needs 32 positions, but model\.context = 8",
        ),
        ({"model": {"kind": "lstm"}}, r'objective\.kind = "answer" needs model\.family = "encoder"; it'),
        ({"training": {"compile": True}}, r"training\.compile is true, but it compiles for one shape of"),
        ({"objective": {"kind": "answer", "longest": 0}}, r"objective\.longest is 0"),
        ({"expected": {"metric": "bleu"}}, r'expected\.metric is "bleu"; for answer choose "loss",'),
        ({"data": {"path": "q.jsonl", "labels": ["a", "b"]}}, r"data\.labels only applies to classification and tagging;"),
    ],
    ids=range(9),
)
def test_tables_that_do_not_go_together_are_refused(change: Table, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compose(answer_table(Path("q.jsonl")) | change)


def test_a_run_is_not_resumed_on_other_questions(tmp_path: Path) -> None:
    path = write_questions(tmp_path / "q.jsonl", RECORDS[:40])
    recipe = compose(answer_table(path, steps=2))
    train_recipe(recipe, tmp_path / "run")
    write_questions(path, RECORDS[:39])
    with pytest.raises(DataError, match=r"the data have changed since this run was started\. Restore"):
        train_recipe(recipe, tmp_path / "run", resume=True)
