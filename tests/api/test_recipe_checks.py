"""Tables of a recipe that do not fit together: each is refused, with what was given, what was expected and what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from reviews import classifier_table
from translations import pair_table

from firth.api import Recipe, compose
from firth.config import Table
from firth.errors import ConfigError

PAIRS = pair_table(Path("p.tsv"))
TEXT: Table = {"data": {"text": "some text"}, "model": {"kind": "gru"}}
CLASSES = classifier_table(Path("r.csv"))
TRANSFORMER = pair_table(Path("p.tsv"), "transformer", context=24)


def changed(table: Table, change: dict[str, Table]) -> Table:
    """With single settings changed; a table that has "kind", "name" or "text" takes the place of the old one."""
    new = {name for name, part in change.items() if part.keys() & {"kind", "name", "text", "path"}}
    return table | {name: part if name in new else {**table.get(name, {}), **part} for name, part in change.items()}


REFUSED: dict[str, tuple[Table, dict[str, Table], str]] = {
    "seq2seq with words to continue": (
        PAIRS,
        {"objective": {"kind": "next-token"}},
        'objective.kind = "next-token" needs model.family =',
    ),
    "a language model with translations": (
        PAIRS,
        {"model": {"kind": "gru"}},
        'objective.kind = "translation" needs model.family =',
    ),
    "a list of tasks": (TEXT, {"objective": {"kind": [["next-token"]]}}, "objective.kind is \"[['next-token']]\"; choose "),
    "a number as the task": (TEXT, {"objective": {"kind": 1}}, 'objective.kind is "1"; choose '),
    "pairs to continue": (
        TEXT,
        {"data": {"name": "multi30k"}},
        'data.name = "multi30k" is a set of sentence pairs, but',
    ),
    "dates to continue": (TEXT, {"data": {"name": "dates"}}, 'data.name = "dates" is a set of sentence pairs, but'),
    "pairs to classify": (CLASSES, {"data": {"name": "scan"}}, 'data.name = "scan" is a set of sentence pairs, but'),
    "a text to classify": (CLASSES, {"data": {"text": "a"}}, "data.text is running text, but classification needs labelled"),
    "a text to translate": (
        PAIRS,
        {"data": {"text": "a"}},
        "data.text is running text, but translation needs sentence",
    ),
    "documentation to translate": (
        PAIRS,
        {"data": {"name": "docs"}},
        'data.name = "docs" is running text, but translation needs',
    ),
    "labels to translate": (PAIRS, {"data": {"name": "sst2"}}, 'data.name = "sst2" is a set of labelled texts, but'),
    "labels of pairs": (
        PAIRS,
        {"data": {"labels": ["a", "b"]}},
        "data.labels only applies to classification and tagging;",
    ),
    "joint vocabulary of a text": (
        TEXT,
        {"tokenizer": {"joint": True}},
        "tokenizer.joint = true only applies to translation;",
    ),
    "joint vocabulary of classes": (
        CLASSES,
        {"tokenizer": {"joint": True}},
        "tokenizer.joint = true only applies to translation;",
    ),
    "beam of classes": (CLASSES, {"decoding": {"beam": 4}}, "decoding.beam = 4 only applies to next-token, translation,"),
    "penalty of classes": (CLASSES, {"decoding": {"penalty": 1.0}}, "decoding.penalty = 1.0 only applies to next-token, trans"),
    "shared embedding of two vocabularies": (
        PAIRS,
        {"model": {"shared": True}},
        "model.shared needs one vocabulary for both sides. Set",
    ),
    "shared embedding of a Transformer": (TRANSFORMER, {"model": {"shared": True}}, "model.shared needs one vocabulary for both"),
    "tokens of a text": (
        TEXT,
        {"training": {"batch_tokens": 100}},
        "training.batch_tokens = 100 only applies to translation;",
    ),
    "BLEU of a text": (
        TEXT,
        {"training": {"select": "bleu"}},
        'training.select is "bleu"; for next-token choose "loss".',
    ),
    "BLEU of classes": (
        CLASSES,
        {"training": {"select": "bleu"}},
        'training.select is "bleu"; for classification choose "loss",',
    ),
    "accuracy of pairs": (
        PAIRS,
        {"training": {"select": "accuracy"}},
        'training.select is "accuracy"; for translation choose "loss",',
    ),
    "what a classifier would carry": (CLASSES, {"training": {"carry": True}}, "a classifier has no state to carry"),
    "rows of pairs": (
        PAIRS,
        {"training": {"batch": 16}},
        "training.batch is 16, but batches of sentence pairs are",
    ),
    "pieces of pairs": (
        PAIRS,
        {"training": {"accumulate": 2}},
        "training.accumulate is 2, but batches of sentence pairs are",
    ),
    "what pairs would carry": (
        PAIRS,
        {"training": {"carry": True}},
        "training.carry is true, but sentence pairs carry no state",
    ),
    "compiled pairs": (PAIRS, {"training": {"compile": True}}, "training.compile is true, but it compiles for one shape of"),
    "what a Transformer would carry": (
        TEXT,
        {"model": {"kind": "transformer"}, "training": {"carry": True}},
        "training.carry is true, but a Transformer has no state to",
    ),
    "windows longer than the model": (
        TEXT,
        {"model": {"kind": "transformer", "context": 100}, "training": {"context": 101}},
        "training.context = 101 needs 101 positions, but model.context = 100.",
    ),
    "sentences longer than the model": (
        TRANSFORMER,
        {"model": {"context": 24}},
        "training.context = 24 needs 25 positions, <eos> included, but model.context",
    ),
    "accuracy promised of pairs": (
        PAIRS,
        {"expected": {"metric": "accuracy"}},
        'expected.metric is "accuracy"; for translation choose',
    ),
    "BLEU promised of a text": (
        TEXT,
        {"expected": {"metric": "bleu"}},
        'expected.metric is "bleu"; for next-token choose "loss",',
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name: str) -> None:
    table, change, message = REFUSED[name]
    with pytest.raises(ConfigError, match=re.escape(message)):
        compose(changed(table, change))


OF_PAIRS: dict[str, Any] = {
    "source": "en",
    "target": "de",
    "split": "length",
    "lower": True,
    "locales": ["fr"],
    "count": 100,
    "target_path": "b",
    "valid_target_path": "b",
    "test_target_path": "b",
}


@pytest.mark.parametrize("table", [TEXT, CLASSES], ids=["a text", "classes"])
@pytest.mark.parametrize("key", OF_PAIRS)
def test_only_pairs_have_two_sides(key: str, table: Table) -> None:
    other = {"path": "a.csv"} | ({key.replace("target_", ""): "a"} if key.endswith("_path") else {})
    with pytest.raises(ConfigError, match=rf"data\.{key} only applies to translation"):
        compose(table | {"data": other | {key: OF_PAIRS[key]}})


FITTING: dict[str, tuple[Table, dict[str, Table]]] = {
    "pairs": (PAIRS, {}),
    "a Transformer with room for <eos>": (TRANSFORMER, {"model": {"context": 25}}),
    "one embedding of one vocabulary": (PAIRS, {"model": {"shared": True}, "tokenizer": {"joint": True}}),
    "dates": (PAIRS, {"data": {"name": "dates", "locales": ["fr"]}}),
    "a named set": (PAIRS, {"data": {"name": "scan", "split": "length"}}),
    "named columns": (PAIRS, {"data": {"path": "p.tsv", "columns": ["en", "de"], "source": "en", "target": "de"}}),
    "two files": (PAIRS, {"data": {"path": "a", "target_path": "b"}}),
    "the best BLEU": (PAIRS, {"training": {"select": "bleu"}, "expected": {"metric": "bleu"}}),
    "the best F1": (CLASSES, {"training": {"select": "macro_f1"}}),
}


@pytest.mark.parametrize("name", FITTING)
def test_what_fits_is_a_recipe(name: str) -> None:
    assert isinstance(compose(changed(*FITTING[name])), Recipe)


def test_a_resolved_transformer_has_room_for_its_sentences_and_eos() -> None:
    recipe = compose(TRANSFORMER).resolved()
    assert getattr(recipe.model, "context") == recipe.training.context + 1 == 25  # noqa: B009 (not every model has one)
    assert compose(PAIRS).resolved().model == compose(PAIRS).model


def test_resolved_paths_of_pairs_lead_there_from_anywhere() -> None:
    table = changed(PAIRS, {"data": {"path": "a", "target_path": "b", "test_path": "c", "test_target_path": "d"}})
    data = compose(table).resolved().data
    here = Path.cwd()
    assert (data.path, data.target_path) == (str(here / "a"), str(here / "b"))
    assert (data.test_path, data.test_target_path) == (str(here / "c"), str(here / "d"))


def test_another_file_takes_the_place_of_both_sides() -> None:
    table = changed(PAIRS, {"data": {"path": "a", "target_path": "b"}})
    data = compose(table, ["data.path=c.tsv"]).data
    assert (data.path, data.target_path) == ("c.tsv", None)
    assert compose(table, ["data.path=c", "data.target_path=d"]).data.target_path == "d"
