"""A tagger from recipe to run: what it learns, that it survives a move and a stop, and what it refuses."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tags import SENTENCES, SPANS, tagger_table, trained_on_tags, write
from tiny_runs import assert_stopping_changes_nothing

import firth
from firth.api import compose, find_recipe, load, train_recipe
from firth.config import Table
from firth.errors import ConfigError, DataError, FirthError
from firth.tasks.tagging import Tags
from firth.training.log import read as read_log


@pytest.fixture(scope="module")
def run() -> Path:
    return trained_on_tags()


@pytest.fixture(scope="module")
def spans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spans")
    return train_recipe(compose(tagger_table(write(folder / "a.conll", SPANS), select="f1")), folder / "run").path


def test_it_learns_what_words_are_from_what_stands_around_them(run: Path) -> None:
    model = firth.load(run)
    for sentence in SENTENCES[:5]:
        (tagged,) = model.tag([[word for word, _ in sentence]])
        assert list(zip(tagged.words, tagged.tags, strict=True)) == sentence
    assert model.evaluate(split="valid")["accuracy"] == 1.0
    assert model.tag([]) == []


@pytest.mark.parametrize(
    ("tokenizer", "model"),
    [
        pytest.param(
            {"kind": "bpe", "vocab": 270},
            {"kind": "transformer", "width": 16, "depth": 2, "heads": 2, "position": "t5"},
            marks=pytest.mark.long,
        ),
        pytest.param({"kind": "wordpiece", "vocab": 60}, {"kind": "gru", "width": 16}, marks=pytest.mark.long),
        pytest.param({"kind": "char"}, {"kind": "lstm", "width": 24}, marks=pytest.mark.long),
        ({"kind": "unigram", "vocab": 270}, {"kind": "transformer", "width": 16, "depth": 2, "heads": 2, "characters": 4}),
    ],
    ids=["bpe", "wordpiece", "char", "unigram"],
)
def test_it_learns_it_in_pieces_of_words_too(tokenizer: Table, model: Table, tmp_path: Path) -> None:
    table = tagger_table(write(tmp_path / "a.conll"), {"family": "encoder"} | model, rate=0.01, steps=120)
    loaded = load(train_recipe(compose(table | {"tokenizer": tokenizer}), tmp_path / "run").path)
    adjective, noun = loaded.tag(["the light bag falls", "she sees the light"])
    assert (adjective.tags, noun.tags) == (("DET", "ADJ", "NOUN", "VERB"), ("PRON", "VERB", "DET", "NOUN"))


def test_words_alone_do_not_tell(tmp_path: Path) -> None:
    table = tagger_table(write(tmp_path / "a.conll"), {"family": "encoder", "kind": "average", "width": 16})
    model = load(train_recipe(compose(table), tmp_path / "run").path)
    tagged = [model.tag([sentence])[0] for sentence in ("the light bag", "she sees the light")]
    assert tagged[0].tags[1] == tagged[1].tags[3]
    assert 0.8 < float(str(model.evaluate(split="train")["accuracy"])) < 1.0


def test_a_string_is_split_at_white_space_and_a_list_is_taken_as_it_is(run: Path) -> None:
    model = load(run)
    one, other = model.tag(["the  light\tbag ", ["the", "light", "bag"]])
    assert one == other
    assert isinstance(one, Tags)
    assert str(one) == "the/DET light/ADJ bag/NOUN"
    assert len(one.probabilities) == 3
    assert all(0.2 < probability <= 1.0 for probability in one.probabilities)


def test_a_sentence_is_tagged_as_it_would_be_alone(run: Path) -> None:
    model = load(run)
    sentences = [[word for word, _ in sentence] for sentence in SENTENCES] * 5  # more than are read at once
    together = model.tag(sentences)
    for place in (0, 3, 4, 199):
        (alone,) = model.tag([sentences[place]])
        assert alone.tags == together[place].tags
        assert np.allclose(alone.probabilities, together[place].probabilities, atol=1e-6)


def test_spans_are_scored_and_can_select(spans: Path) -> None:
    model = load(spans)
    result: dict[str, Any] = model.evaluate(split="valid")
    assert result["f1"] == result["f1_strict"] == result["accuracy"] == 1.0
    assert [one["type"] for one in result["spans"]] == ["LOC", "PER"]
    valid = [line["valid"] for line in read_log(spans / "log.jsonl") if "valid" in line]
    assert valid[-1].keys() == {"loss", "accuracy", "f1", "words", "sentences"}


def entities(path: Path, endings: dict[str, str], names: int, seed: int) -> Path:
    """Names that only their endings tell apart, in the four columns and the IOB1 tags of CoNLL-2003."""
    draw = random.Random(seed)

    def name(ending: str) -> str:
        return "".join(draw.choices("bdfgklmnprstv", k=4)).capitalize() + ending

    text = "-DOCSTART- -X- -X- O\n\n"
    for kind, ending in [*endings.items()] * names:
        words = [("yesterday", "O"), (name(ending), f"I-{kind}"), *[(name(ending), f"I-{kind}")] * (draw.random() < 0.5)]
        text += "".join(f"{word} NN I-NP {tag}\n" for word, tag in [*words, ("won", "O")]) + "\n"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_recipe_for_named_entities_learns_a_conll_file_from_the_characters_of_names(tmp_path: Path) -> None:
    endings = {"PER": "son", "LOC": "ham"}
    files = {part: entities(tmp_path / f"{part}.txt", endings, 20, seed) for seed, part in enumerate(("", "valid_", "test_"))}
    settings: Table = {f"data.{part}path": str(path) for part, path in files.items()} | {"data.format": "conll"}
    settings |= {"model.width": 12, "model.embedding.width": 8, "model.spelling.width": 8, "model.dropout": 0.2}
    settings |= {"training.steps": 60, "training.batch": 8, "training.warmup": 5, "training.rate": 0.03}
    settings |= {"training.average": 0.9, "training.evaluate_every": 30, "training.device": "cpu"}
    run = load(train_recipe(find_recipe("conll-ner-bilstm-crf", [*settings.items()]), tmp_path / "run").path)
    assert run.labels == ("B-LOC", "B-PER", "E-LOC", "E-PER", "O", "S-LOC", "S-PER")
    result = run.evaluate(split="test")
    assert result["f1"] > 0.9
    assert result["f1_strict"] is not None
    assert run.evaluate(files["test_"])["f1"] == result["f1"], "another file is converted as well"
    person, place = run.tag(["yesterday Gimson won", "yesterday Tarlham Vestham won"])
    assert (person.tags, place.tags) == (("O", "S-PER", "O"), ("O", "B-LOC", "E-LOC", "O"))


def test_the_log_of_parts_of_speech_has_no_f1(run: Path) -> None:
    valid = [line["valid"] for line in read_log(run / "log.jsonl") if "valid" in line]
    assert len(valid) == 2
    assert valid[-1].keys() == {"loss", "accuracy", "words", "sentences"}
    assert valid[-1]["loss"] < valid[0]["loss"]


def test_f1_cannot_select_where_there_are_no_spans(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'training\.select is "f1", but these tags mark no spans: ADJ,'):
        train_recipe(compose(tagger_table(write(tmp_path / "a.conll"), select="f1")), tmp_path / "run")


def test_the_run_knows_its_tags_wherever_it_goes(run: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(run, tmp_path / "elsewhere"))
    shutil.rmtree(moved / "checkpoints")
    model = load(moved)
    assert model.labels == model.recipe.data.labels == ("ADJ", "DET", "NOUN", "PRON", "VERB")
    assert model.tag(["the bag"])[0].tags == ("DET", "NOUN")


def test_evaluation_reads_the_runs_own_sentences_or_another_file(run: Path, tmp_path: Path) -> None:
    model = load(run)
    assert (model.evaluate(split="train")["sentences"], model.evaluate()["sentences"]) == (32, 8)
    other = write(tmp_path / "other.conll", [[("the", "DET"), ("bag", "VERB")]])
    result = model.evaluate(other)
    assert (result["accuracy"], result["words"], result["split"]) == (0.5, 2, str(other))
    with pytest.raises(DataError, match=r'wrong\.conll:1 is tagged "X"'):
        model.evaluate(write(tmp_path / "wrong.conll", [[("the", "X")]]))


@pytest.mark.parametrize(
    "changes",
    [
        {"objective.unknown": 0.2},
        {"objective.unknown": 0.5, "objective.unknown_among": "singletons"},
        {"model.spelling": {"kind": "lstm", "width": 4, "join": "concatenate"}, "model.readout": "crf"},
    ],
    ids=["convolution", "singletons", "lstm"],
)
def test_a_run_that_was_stopped_goes_on_to_the_bit(changes: Table, tmp_path: Path) -> None:
    rare = [[(f"word{n}", "NOUN"), ("falls", "VERB")] for n in range(8)]
    path = write(tmp_path / "a.conll", SENTENCES + rare)
    table = tagger_table(path, steps=14, evaluate_every=5, checkpoint_every=4, average=0.9)
    recipe = compose(table, list(changes.items()))
    assert_stopping_changes_nothing(recipe, tmp_path, at=7)


def test_a_pretrained_encoder_and_its_vocabulary_are_where_a_tagger_begins(tmp_path: Path) -> None:
    text = "\n".join(" ".join(word for word, _ in sentence) for sentence in SENTENCES)
    model = {"family": "encoder", "kind": "transformer", "width": 16, "depth": 1, "heads": 2}
    training = {"steps": 3, "batch": 4, "context": 12, "device": "cpu"}
    table = {"data": {"text": text}, "tokenizer": {"kind": "word"}, "model": model, "objective": {"kind": "masked"}}
    pretrained = load(train_recipe(compose(table | {"training": training}), tmp_path / "mlm").path)
    tagging = tagger_table(write(tmp_path / "a.conll"), model | {"characters": 4}, steps=1, rate=1e-9, init=str(tmp_path / "mlm"))
    del tagging["tokenizer"]
    tagger = load(train_recipe(compose(tagging), tmp_path / "run").path)
    assert tagger.tokenizer.to_json() == pretrained.tokenizer.to_json()
    here, there = (one.network.embedding.weight.detach().cpu().numpy() for one in (tagger, pretrained))
    assert np.allclose(here, there[: len(here)], atol=1e-6)  # behind them is the mask


def test_a_run_is_not_resumed_on_other_tags(tmp_path: Path) -> None:
    recipe = compose(tagger_table(write(tmp_path / "a.conll"), steps=2))
    train_recipe(recipe, tmp_path / "run")
    write(tmp_path / "a.conll", [[("the", "NOUN"), *SENTENCES[0][1:]], *SENTENCES[1:]])
    with pytest.raises(DataError, match=r"the data have changed since this run was started\. Restore"):
        train_recipe(recipe, tmp_path / "run", resume=True)


def test_words_never_seen_are_said_where_their_spelling_is_not_read(run: Path, tmp_path: Path) -> None:
    load(run).tag(["the zebra"])  # warnings are errors here
    table = tagger_table(write(tmp_path / "a.conll"), {"family": "encoder", "kind": "gru", "width": 4}, steps=2)
    with pytest.warns(UserWarning, match=r"^read as <unk>, never seen in training: zebra$"):
        load(train_recipe(compose(table), tmp_path / "run").path).tag(["the zebra"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.tag("the bag"), r"tag takes a list of texts\. Write tag\(\['the bag'\]\)\."),
        (lambda model: model.tag([" "]), r"a sentence to tag is \[\]; expected one or more words, none of"),
        (lambda model: model.tag([["a", ""]]), r"none of them empty"),
        (lambda model: model.generate("a"), r"this run is a tagger and cannot generate; it can: "),
        (lambda model: model.classify(["a"]), r"this run is a tagger and cannot classify; it can: "),
        (lambda model: model.evaluate(split="test"), r"this run has no test data, only valid and train\. Choose one"),
    ],
    ids=range(6),
)
def test_what_it_cannot_do_is_said(call: Any, message: str, run: Path) -> None:
    with pytest.raises(FirthError, match=message):
        call(load(run))


def test_a_sentence_longer_than_the_positions_is_refused_not_cut(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll")
    model = {"family": "encoder", "kind": "transformer", "width": 8, "depth": 1, "heads": 2, "position": "learned", "context": 6}
    loaded = load(train_recipe(compose(tagger_table(path, model, steps=2)), tmp_path / "run").path)
    with pytest.raises(DataError, match=r"1 of 2 sentences to tag have more than 6 tokens, the limit of"):
        loaded.tag(["the bag", "the bag the bag the bag the bag falls"])
    with pytest.raises(DataError, match=r"train sentences have more than 5 tokens"):
        train_recipe(compose(tagger_table(path, model | {"context": 5}, steps=2)), tmp_path / "other")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": {"text": "abc"}}, r"data\.text is running text, but tagging needs tagged words\."),
        ({"data": {"name": "sst2"}}, r'data\.name = "sst2" is a set of labelled texts, but tagging'),
        ({"data": {"path": "a.csv", "columns": ["a", "b"]}}, r"data\.columns only applies to csv and tsv; objective\.kind is"),
        ({"model": {"kind": "lstm"}}, r'objective\.kind = "tagging" needs model\.family = "encoder"; it'),
        ({"objective": {"kind": "tagging", "unknown": 1.0}}, r"objective\.unknown is 1\.0; expected 0 ≤ unknown < 1"),
        (
            {"objective": {"kind": "tagging", "unknown_among": "singletons"}},
            r'objective\.unknown_among is "singletons", but objective\.unknown is 0\. Set it',
        ),
        ({"training": {"carry": True}}, r"training\.carry is true, but a tagger has no state to carry"),
        ({"training": {"compile": True}}, r"training\.compile is true"),
        ({"expected": {"metric": "perplexity"}}, r'expected\.metric is "perplexity"; for tagging choose'),
        ({"model": {"family": "encoder", "kind": "lstm", "characters": -1}}, r"model\.spelling\.width is -1; expected 0 or"),
        (
            {"model": {"family": "encoder", "kind": "lstm", "spelling": "lstm"}},
            r"model\.spelling\.width is 0, so the spelling is not used\. Set it, for example to 25\.",
        ),
        (
            {"model": {"family": "encoder", "kind": "transformer", "spelling": {"width": 4, "join": "add"}}},
            r'unknown key "model\.spelling\.join"',
        ),
    ],
    ids=range(12),
)
def test_tables_that_do_not_go_together_are_refused(change: Table, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compose(tagger_table(Path("a.conll")) | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"data": {"path": "a.csv", "column": 2}},
            r"data\.column only applies to tagging; objective\.kind is",
        ),
        ({"data": {"path": "a", "format": "conll"}}, r'data\.format = "conll" only applies to tagging\. Remove it\.'),
        (
            {"model": {"family": "encoder", "kind": "lstm", "characters": 4}},
            r"model\.spelling\.width = 4 only applies to tagging; objective\.kind",
        ),
        ({"data": {"name": "conll2003"}}, r'data\.name = "conll2003" is a set of tagged words, but'),
    ],
    ids=range(4),
)
def test_classifiers_have_none_of_it(change: Table, message: str) -> None:
    table = {
        "data": {"path": "a.csv"},
        "model": {"family": "encoder", "kind": "average"},
        "objective": {"kind": "classification"},
    }
    with pytest.raises(ConfigError, match=message):
        compose(table | change)


def test_unknown_words_need_an_unk(tmp_path: Path) -> None:
    table = tagger_table(write(tmp_path / "a.conll")) | {"tokenizer": {"kind": "bpe"}}
    with pytest.raises(ConfigError, match=r"objective\.unknown is 0\.1, but a bpe tokenizer has no <unk>\."):
        train_recipe(compose(table, ["objective.unknown=0.1"]), tmp_path / "run")
    with pytest.raises(ConfigError, match=r"no token occurs once in the training data\. Set tokenizer\.min_count = 1, or"):
        train_recipe(
            compose(tagger_table(write(tmp_path / "b.conll")), ["objective.unknown=0.5", "objective.unknown_among=singletons"]),
            tmp_path / "other",
        )
