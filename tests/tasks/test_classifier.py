"""A classifier from recipe to run: what it learns, that it survives a move and a stop, and what it refuses."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reviews import BAD, GOOD, SORTED, classifier_table, trained_on_reviews, write
from shares import half
from tiny_runs import assert_stopping_changes_nothing, watching

import firth
from firth.api import compose, load, train_recipe
from firth.config import Table
from firth.errors import ConfigError, DataError, FirthError, RunError
from firth.progress import silent
from firth.tasks.classification import ClassifierRun
from firth.text.datasets.negations import negations
from firth.training.log import read as read_log
from firth.vectors import WordVectors


@pytest.fixture(scope="module")
def run() -> Path:
    return trained_on_reviews()


def test_it_learns_what_words_say(run: Path) -> None:
    model = firth.load(run)
    assert [text.label for text in model.classify([*GOOD, *BAD])] == ["good"] * 4 + ["bad"] * 4
    assert model.evaluate(split="valid")["accuracy"] == 1.0
    assert model.classify([]) == []


def test_contrast_pairs_are_for_sentiment(run: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r'labelled "positive" and "negative", but the classes of this run are bad, good\. Remove'
    ):
        firth.load(run).evaluate(contrast=True)
    rows = ["text,label", *(f"{text},{label}" for text, label in negations(60))]
    (tmp_path / "opinions.csv").write_text("\n".join(rows).replace(" ,", ""))
    model = firth.load(train_recipe(compose(classifier_table(tmp_path / "opinions.csv", steps=2)), tmp_path / "run").path)
    scores = model.evaluate(contrast=True)
    assert scores["contrast"]["pairs"] == 100
    assert "contrast" not in model.evaluate()
    report = model.task.report(scores)
    assert f"both right          {scores['contrast']['pair_accuracy']:.0%}" in report
    assert all(text in report for text, _ in scores["contrast"]["wrong"])


@pytest.mark.parametrize(
    "model",
    [
        {"kind": "gru", "width": 16, "pool": "attention"},
        {"kind": "transformer", "width": 16, "depth": 1, "heads": 2, "position": "learned", "context": 16},
    ],
    ids=str,
)
def test_readers_of_order_learn_it_too_and_are_loaded_as_they_were(model: Table, tmp_path: Path) -> None:
    table = classifier_table(write(tmp_path / "reviews.csv")) | {"model": {"family": "encoder"} | model}
    table["training"] |= {"rate": 0.01}
    loaded = load(train_recipe(compose(table), tmp_path / "run").path)
    assert [one.label for one in loaded.classify([*GOOD, *BAD])] == ["good"] * 4 + ["bad"] * 4
    with (
        pytest.raises(DataError, match=r"1 of 1 texts to classify have more than 16 tokens, the limit")
        if "context" in model
        else nullcontext()
    ):
        loaded.classify(["lovely " * 20])


def test_probabilities_are_of_every_class_and_the_label_has_the_largest(run: Path) -> None:
    (classified,) = load(run).classify(["what a dull great story"])
    assert list(classified.probabilities) == ["bad", "good"]
    assert sum(classified.probabilities.values()) == pytest.approx(1.0)
    assert classified.probability == max(classified.probabilities.values()) == classified.probabilities[classified.label]


def test_a_text_is_classified_as_it_would_be_alone(run: Path) -> None:
    model = load(run)
    texts = ["lovely", "a dull dull film what a great great story", *GOOD] * 60  # more than are read at once
    together = [one.probabilities["good"] for one in model.classify(texts)]
    alone = [model.classify([text])[0].probabilities["good"] for text in texts[:6]] * 60
    assert np.allclose(together, alone, atol=1e-6)


def test_the_log_tells_loss_and_accuracy_of_what_was_held_out(run: Path) -> None:
    valid = [line["valid"] for line in read_log(run / "log.jsonl") if "valid" in line]
    assert len(valid) == 3
    assert valid[-1].keys() == {"loss", "accuracy", "macro_f1", "examples"}
    assert valid[-1]["loss"] < valid[0]["loss"]


def test_the_run_knows_its_labels_wherever_it_goes(run: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(run, tmp_path / "elsewhere"))
    shutil.rmtree(moved / "checkpoints")
    model = load(moved)
    assert model.labels == model.recipe.data.labels == ("bad", "good")
    assert model.classify(["lovely"])[0].label == "good"


def test_evaluation_reads_the_runs_own_texts_or_another_file(run: Path, tmp_path: Path) -> None:
    model = load(run)
    assert model.evaluate()["split"] == "valid"
    assert (model.evaluate(split="train")["examples"], model.evaluate(split="valid")["examples"]) == (64, 16)
    wrong = write(tmp_path / "other.jsonl", [("great", "bad"), ("dull", "bad"), ("lovely", "good")])
    result: dict[str, Any] = model.evaluate(wrong)
    assert result["accuracy"] == pytest.approx(2 / 3)
    assert result["confusion"] == ((1, 1), (0, 1))
    assert [one["label"] for one in result["classes"]] == ["bad", "good"]
    assert result["split"] == str(wrong)


def test_a_run_that_was_stopped_goes_on_to_the_bit(tmp_path: Path) -> None:
    recipe = compose(classifier_table(write(tmp_path / "r.csv"), steps=14, evaluate_every=5, checkpoint_every=4))
    assert_stopping_changes_nothing(recipe, tmp_path, at=7)


def test_a_resumed_run_keeps_its_labels_and_refuses_others(tmp_path: Path) -> None:
    table = classifier_table(write(tmp_path / "r.csv"), steps=2)
    train_recipe(compose(table, ['data.labels=["good", "bad"]']), tmp_path / "run")
    train_recipe(compose(table, ["training.steps=4"]), tmp_path / "run", resume=True)
    assert load(tmp_path / "run").labels == ("good", "bad")
    with pytest.raises(ConfigError, match=r"the run was started with data\.labels = \['good', 'bad'\]; now"):
        train_recipe(compose(table, ['data.labels=["bad", "good"]']), tmp_path / "run", resume=True)


def test_a_run_is_not_resumed_on_other_labels(tmp_path: Path) -> None:
    recipe = compose(classifier_table(write(tmp_path / "r.csv"), steps=2))
    train_recipe(recipe, tmp_path / "run")
    write(tmp_path / "r.csv", [(SORTED[0][0], "good"), *SORTED[1:]])
    with pytest.raises(DataError, match=r"the data have changed since this run was started\. Restore"):
        train_recipe(recipe, tmp_path / "run", resume=True)


def test_pieces_of_a_batch_give_the_same_as_the_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv")
    losses: list[list[float]] = []
    for pieces in (1, 4):
        losses.append([])
        recipe = compose(classifier_table(path, steps=5, accumulate=pieces), ["model.dropout=0.0"])
        watcher = watching(lambda training, seen: losses[-1].append(seen.loss))
        train_recipe(recipe, tmp_path / str(pieces), watcher=watcher)
    assert np.allclose(losses[0], losses[1], rtol=1e-5)


def test_texts_that_learned_positions_cannot_reach_are_said_and_never_cut(tmp_path: Path) -> None:
    table = classifier_table(write(tmp_path / "r.csv"), steps=2)
    table["model"] = {"family": "encoder", "kind": "transformer", "width": 8, "depth": 1, "heads": 2} | {"position": "learned"}
    table["model"]["context"] = 3
    with pytest.raises(DataError, match=r"5 of 16 held-out texts have more than 3 tokens, the limit of"):
        train_recipe(compose(table), tmp_path / "refused")
    table["data"] |= {"valid_path": str(write(tmp_path / "v.csv", [("great fun", "good")]))}
    said: list[str] = []
    model = load(train_recipe(compose(table), tmp_path / "run", watcher=watching(notice=said.append)).path)
    assert len(said) == 1
    assert "(25 %) have more than 3 tokens" in said[0]
    assert said[0].startswith("20 of 80 training texts of ")
    with pytest.raises(DataError, match="20 of 80 texts of train have more than 3 tokens"):
        model.evaluate(split="train")


@pytest.mark.parametrize(
    "model",
    half(
        [
            {"kind": "gru", "width": 16},
            {"kind": "lstm", "width": 12, "embedding": 8, "tied": True},
            {"kind": "transformer", "width": 16, "depth": 1, "heads": 2, "tied": False, "context": 16},
        ]
    ),
    ids=str,
)
def test_a_decoder_learns_to_classify_and_stops_and_goes_on_to_the_bit(model: Table, tmp_path: Path) -> None:
    table = classifier_table(write(tmp_path / "r.csv"), checkpoint_every=25) | {"model": {"family": "language"} | model}
    table["training"] |= {"rate": 0.01}
    recipe = compose(table)
    assert_stopping_changes_nothing(recipe, tmp_path, at=33)
    loaded = load(tmp_path / "run")
    assert [one.label for one in loaded.classify([*GOOD, *BAD])] == ["good"] * 4 + ["bad"] * 4
    with pytest.raises(ConfigError, match=r"this run is a classifier and cannot \w+; it can: classify, evaluate"):
        loaded.generate("a")


def test_a_class_that_weighs_more_is_said_more_often(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", [("film", "good"), ("film", "bad")] * 20)
    chances = []
    for weights in ("[1.0, 3.0]", "[1.0, 1.0]"):
        recipe = compose(classifier_table(path, steps=150), [f"objective.weights={weights}", "model.dropout=0.0"])
        model = load(train_recipe(recipe, tmp_path / weights).path)
        chances.append(model.classify(["film"])[0].probabilities["good"])
    assert chances == pytest.approx([0.75, 0.5], abs=0.05)  # w_good n_good / Σ w n


def test_rare_classes_are_balanced_by_what_the_training_part_has(tmp_path: Path) -> None:
    reviews = [("film", "bad")] * 30 + [("film", "good")] * 10
    recipe = compose(classifier_table(write(tmp_path / "r.csv", reviews)), ["objective.weights=balanced", "data.valid=0.0"])
    task = recipe.task
    weight_C = task.loss(task.read(recipe.tokenizer, silent)).keywords["weight_C"]  # type: ignore[attr-defined]
    assert weight_C.tolist() == pytest.approx([40 / (2 * 30), 40 / (2 * 10)])


def test_vectors_lend_their_words_to_the_vocabulary(tmp_path: Path) -> None:
    WordVectors(["splendid", "great", "dull"], np.eye(3, 6, dtype=np.float32)).save(tmp_path / "v.firth")
    table = classifier_table(write(tmp_path / "r.csv"), steps=3)
    table["model"] |= {"vectors": str(tmp_path / "v.firth")}
    table["tokenizer"] |= {"vectors": True}
    model = load(train_recipe(compose(table), tmp_path / "run").path)
    row = int(model.tokenizer.encode("splendid")[0])
    assert model.tokenizer.unseen("splendid film") == []
    assert torch.equal(model.network.embedding.weight[row].cpu(), torch.eye(3, 6)[0])  # no text has it: it stays as it was
    (tmp_path / "v.firth").unlink()
    table["training"] |= {"steps": 5}
    train_recipe(compose(table), tmp_path / "run", resume=True)  # what it lent is kept


@pytest.mark.parametrize("fixed", [False, True])
def test_word_vectors_are_the_embedding(fixed: bool, tmp_path: Path) -> None:
    table_Vd = np.random.default_rng(0).normal(size=(2, 6)).astype(np.float32)
    WordVectors(["great", "dull"], table_Vd).save(tmp_path / "v.firth")
    table = classifier_table(write(tmp_path / "r.csv"), steps=3)
    table["model"] |= {"vectors": str(tmp_path / "v.firth"), "vectors_fixed": fixed}
    said: list[str] = []
    model = load(train_recipe(compose(table), tmp_path / "run", watcher=watching(notice=said.append)).path)
    row = int(model.tokenizer.encode("great")[0])
    kept = torch.equal(model.network.embedding.weight[row].cpu(), torch.from_numpy(table_Vd[0]))
    assert kept == fixed
    assert said == [f"2 of {model.tokenizer.vocab} tokens have a vector in {tmp_path / 'v.firth'}"]


def test_words_never_seen_are_said_once(run: Path) -> None:
    with pytest.warns(UserWarning, match=r"^read as <unk>, never seen in training: one, two, zero, five, four and 2 more$"):
        load(run).classify(["great zero one two", "three one four five six"])


REFUSED = {
    "generate": lambda model: model.generate("a"),
    "score": lambda model: model.score(["a"]),
    "complete": lambda model: model.complete("a __", ["b"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_classifier_has_no_next_word(name: str, run: Path) -> None:
    with pytest.raises(ConfigError, match=r"this run is a classifier and cannot \w+; it can: classify, evaluate"):
        REFUSED[name](load(run))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.classify("great"), r"classify takes a list of texts\. Write classify\(\['great'\]\)\."),
        (lambda model: model.classify(["great", "  "]), r"a text to classify is '  ', which has no tokens; expected at"),
        (lambda model: model.evaluate(split="test"), r"this run has no test data, only valid and train\. Choose one"),
        (lambda model: model.evaluate(split="tset"), 'Did you mean "test"'),
        (
            lambda model: model.evaluate("a.csv", split="test"),
            r'the file a\.csv and the split "test" cannot be combined\. Remove',
        ),
    ],
    ids=range(5),
)
def test_what_it_cannot_do_is_said(call: Any, message: str, run: Path) -> None:
    with pytest.raises(FirthError, match=message):
        call(load(run))


def test_standard_input_cannot_be_evaluated_again(run: Path) -> None:
    model = load(run)
    recipe = compose(classifier_table(run), ["data.path=-", 'data.labels=["bad", "good"]'])
    with pytest.raises(DataError, match="standard input, which cannot be read again"):
        ClassifierRun(recipe.task, model.network, model.tokenizer).evaluate()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"objective": {"kind": "next-token"}},
            r'objective\.kind = "next-token" needs model\.family =',
        ),
        (
            {"model": {"kind": "lstm"}, "objective": {"kind": "translation"}},
            r'objective\.kind = "translation" needs model\.family =',
        ),
        ({"data": {"text": "abc"}}, r"data\.text is running text, but classification needs labelled"),
        ({"data": {"name": "ptb"}}, r'data\.name = "ptb" is running text, but classification needs'),
        ({"data": {"name": "docs"}}, r'data\.name = "docs" is running text, but classification needs'),
        ({"training": {"carry": True}}, r"a classifier has no state to carry"),
        ({"expected": {"metric": "perplexity"}}, r'expected\.metric is "perplexity"; for classification choose'),
        (
            {"model": {"family": "encoder", "kind": "cnn"}},
            "model\\.kind\" is 'cnn'; expected one of 'average', 'rnn',",
        ),
        ({"data": {"path": "r.csv", "labels": ["a"]}}, r"data\.labels is \['a'\]; expected two or more"),
        ({"data": {"path": "r.csv", "labels": ["a", "a"]}}, r"data\.labels is \['a', 'a'\]; expected two or more different"),
        ({"data": {"path": "r.csv", "label": ""}}, r'data\.label is ""'),
        ({"objective": {"weights": "even"}}, r"objective\.weights\" is 'even'; expected one of 'balanced' or a list of a number"),
        ({"objective": {"weights": [1.0, 0.0]}}, r"objective\.weights is \[1\.0, 0\.0\]; expected a number above 0"),
        (
            {"tokenizer": {"kind": "word", "vectors": True}},
            r"tokenizer\.vectors needs model\.embedding\.vectors, which is missing\. Set",
        ),
        ({"tokenizer": {"kind": "bpe", "vectors": True}}, r"tokenizer\.vectors is true, but tokenizer\.kind is \"bpe\""),
    ],
    ids=range(15),
)
def test_tables_that_do_not_go_together_are_refused(change: Table, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compose(classifier_table(Path("r.csv")) | change)


def test_weights_are_one_for_each_class(tmp_path: Path) -> None:
    recipe = compose(classifier_table(write(tmp_path / "r.csv"), steps=2), ["objective.weights=[1.0, 2.0, 3.0]"])
    with pytest.raises(ConfigError, match=r"objective\.weights has 3 numbers for 2 classes: bad, good\."):
        train_recipe(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_running_text_has_no_labels() -> None:
    with pytest.raises(ConfigError, match=r"data\.labels only applies to classification and tagging;"):
        compose({"data": {"path": "a.csv", "labels": ["a", "b"]}, "model": {"kind": "rnn"}})


def test_no_perplexity_is_promised_of_classes_nor_accuracy_of_words() -> None:
    table = {"data": {"text": "abc"}, "model": {"kind": "rnn"}, "expected": {"metric": "accuracy"}}
    with pytest.raises(ConfigError, match=r'expected\.metric is "accuracy"; for next-token choose'):
        compose(table)


def test_data_of_ones_own_take_the_place_of_the_named_set(tmp_path: Path) -> None:
    """The recipe that ships, on a csv with other columns."""
    from firth.api import find_recipe

    path = write(tmp_path / "r.csv", header=("text", "stars"))
    few = ["training.steps=20", "training.device=cpu", "training.evaluate_every=0"]
    recipe = find_recipe("sst2-average", [f"data.path={path}", "data.label=stars", *few])
    model = load(train_recipe(recipe, tmp_path / "run").path)
    assert model.labels == ("bad", "good")


def test_a_vocabulary_of_another_run_is_named(run: Path, char_run: Path, tmp_path: Path) -> None:
    mixed = Path(shutil.copytree(run, tmp_path / "mixed"))
    shutil.copy(char_run / "tokenizer.json", mixed)
    with pytest.raises(RunError, match=r"tokenizer\.json is not the one that these weights were trained with"):
        load(mixed)
