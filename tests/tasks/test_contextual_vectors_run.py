"""Vectors of texts, tokens, words and senses: against plain loops, each text as if it were alone, and what is refused."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reviews import classifier_table, write
from runs import recipe_table
from senses import PAIRS, write_wic
from translations import pair_table, write_pairs

from firth.api import compose, load, train_recipe
from firth.errors import ConfigError, DataError, FirthError
from firth.tasks.run import Run

TEXTS = ["the list is empty.", "a name", "the café serves naïve users", "a"]


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Run[Any]:
    """A translator that has learned nothing to speak of."""
    folder = tmp_path_factory.mktemp("numbers")
    table = pair_table(write_pairs(folder / "n.tsv"), steps=2, evaluate_every=0)
    table["data"] |= {"lower": True}
    return load(train_recipe(compose(table), folder / "run").path)


def hidden(model: Run[Any], text: str) -> np.ndarray[Any, Any]:
    """Hidden states of a language model that reads this text alone."""
    with torch.no_grad():
        x_Td: np.ndarray[Any, Any] = model.network.hidden(torch.from_numpy(model.ids(text)).unsqueeze(0))[0][0].numpy()
    return x_Td


@pytest.mark.parametrize("run", ["char_run", "word_run", "bpe_run"])
def test_without_pooling_there_is_a_row_for_each_token(run: str, request: pytest.FixtureRequest) -> None:
    model = load(request.getfixturevalue(run))
    embedded = model.embed(TEXTS[:3], pool=None)
    for text, x_Td in zip(TEXTS, embedded, strict=False):
        assert x_Td.dtype == np.float32
        np.testing.assert_allclose(x_Td, hidden(model, text), atol=1e-5)


POOLED = {"first": lambda x: x[0], "last": lambda x: x[-1], "mean": lambda x: sum(x) / len(x), "max": lambda x: x.max(0)}


@pytest.mark.parametrize("pool", POOLED)
def test_pooling_takes_a_texts_own_tokens(pool: Any, bpe_run: Path) -> None:
    model = load(bpe_run)
    pooled_Nd = model.embed(TEXTS, layer=1, pool=pool)
    assert (pooled_Nd.shape, pooled_Nd.dtype) == ((4, 32), np.float32)
    for x_d, x_Td in zip(pooled_Nd, model.embed(TEXTS, layer=1, pool=None), strict=True):
        np.testing.assert_allclose(x_d, POOLED[pool](x_Td), atol=1e-6)


def test_the_mean_of_the_last_layer_is_what_one_gets_unasked(bpe_run: Path) -> None:
    model = load(bpe_run)
    assert np.array_equal(model.embed(TEXTS), model.embed(TEXTS, layer=1, pool="mean"))
    assert model.embed([]).shape == (0, 32)
    assert model.embed([], pool=None) == []


def test_a_text_has_the_vectors_that_it_has_alone(bpe_run: Path) -> None:
    model = load(bpe_run)
    texts = [TEXTS[n % 4] * (1 + n % 7) for n in range(200)]  # many batches, and none in the order given
    together = model.embed(texts)
    for n in range(0, 200, 17):
        np.testing.assert_allclose(together[n], model.embed([texts[n]])[0], atol=1e-5)


def test_layer_0_is_the_embedding(bpe_run: Path) -> None:
    model = load(bpe_run)
    (x_Td,) = model.embed([TEXTS[0]], layer=0, pool=None)
    assert np.array_equal(x_Td, model.network.embedding.weight.detach().numpy()[model.ids(TEXTS[0])])


WORDS = {"word_run": ["the", "list", "is", "empty."], "bpe_run": ["the", "list", "is", "empty", "."]}
WORDS["char_run"] = WORDS["bpe_run"]


@pytest.mark.parametrize("run", WORDS)
def test_a_word_is_the_mean_of_its_pieces(run: str, request: pytest.FixtureRequest) -> None:
    model = load(request.getfixturevalue(run))
    (x_Wd,) = model.embed([TEXTS[0]], pool="words")
    (x_Td,) = model.embed([TEXTS[0]], pool=None)
    token_T = [model.tokenizer.token(int(id)) for id in model.ids(TEXTS[0])]
    rows, at = [], 0
    for word in WORDS[run]:
        own, spelled = [], ""
        while spelled != word:
            spelled = (spelled + token_T[at]).strip()
            own.append(x_Td[at])
            at += 1
        rows.append(sum(own) / len(own))
    assert at == len(token_T)
    np.testing.assert_allclose(x_Wd, rows, atol=1e-6)


def test_of_sentence_pairs_the_source_is_read_and_its_end_has_no_row(numbers: Run[Any]) -> None:
    (x_Td,) = numbers.embed(["  4 2 7"], pool=None)
    assert len(x_Td) == 3
    ids = [*numbers.source_tokenizer.encode("4 2 7").tolist(), numbers.source_tokenizer.eos]
    with torch.no_grad():
        memory_1Sm = numbers.network.encode(torch.tensor([ids]), torch.tensor([4])).memory_BSm  # type: ignore[operator, union-attr]
    np.testing.assert_allclose(x_Td, memory_1Sm[0, :3], atol=1e-6)


def test_an_encoder_under_a_classifier_is_read(tmp_path: Path) -> None:
    table = classifier_table(write(tmp_path / "r.csv"), steps=2, evaluate_every=0)
    learned = {
        "family": "encoder",
        "kind": "transformer",
        "width": 8,
        "depth": 2,
        "heads": 2,
        "context": 5,
        "position": "learned",
    }
    model = load(train_recipe(compose(table | {"model": learned}), tmp_path / "run").path)
    token_1T, length_1 = torch.from_numpy(model.ids("a great film")).unsqueeze(0), torch.tensor([3])
    with torch.no_grad():
        expected = model.network.encoder(token_1T, length_1)[0]
    np.testing.assert_allclose(model.embed(["a great film"], pool=None)[0], expected, atol=1e-6)
    with pytest.raises(DataError, match=r"text 2 has 6 tokens, but the learned positions of this model end at 5\."):
        model.embed(["a", "a great a great a great"])


def test_words_never_seen_are_said_once_for_all_texts(word_run: Path) -> None:
    with pytest.warns(UserWarning, match=r"^read as <unk>, never seen in training: zebra, yak$"):
        load(word_run).embed(["a zebra", "a yak", "a zebra"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.embed("a text"), r"expected a list of texts\. Write \['a text'\]\."),
        (lambda model: model.embed(["a", ""]), r"text 2 is '', which has no tokens; expected at least one word"),
        (lambda model: model.embed(["a"], pool="men"), r'pool is "men"; .* Did you mean "mean"\?'),
        (lambda model: model.embed(["a"], layer=2), r"layer is 2, but this model has layers 0 \(the embedding\) to 1"),
        (lambda model: model.embed(["a §"]), r"the text has characters that are not in the vocabulary: '§'\."),
        (lambda model: model.senses("a", ["a name"]), r"senses compares one word across sentences\. Give a list of two"),
        (lambda model: model.senses("a", "a name"), r"senses compares one word across sentences\. Give a list of two"),
        (lambda model: model.senses("list", ["the list", "a name is"]), r'"list" does not occur in the sentence "a name is"'),
        (lambda model: model.senses("a#2", ["a a", "a set"]), r'"a" occurs once in the sentence "a set", not 2 times'),
        (lambda model: model.senses("a#3", ["a a", "a set"]), r'"a" occurs 2 times in the sentence "a a", not 3 times'),
        (lambda model: model.senses(" ", ["a a", "a set"]), r'the word is " "; expected a word'),
        (lambda model: model.senses("a#0", ["a a", "a set"]), r'the word is "a#0"; expected a word, or "a#2"'),
    ],
    ids=range(12),
)
def test_what_cannot_be_read_is_said(call: Any, message: str, char_run: Path) -> None:
    with pytest.raises(FirthError, match=message):
        call(load(char_run))


def cosine(x: Any, y: Any) -> float:
    return float(np.dot(x, y) / np.sqrt(np.dot(x, x) * np.dot(y, y)))


SENTENCES = ["the list is empty.", "a name is in the list", "(list)"]
LIST_IS_WORD = [1, 5, 1]  # "list" among the words of each


def test_senses_are_cosines_of_the_words_own_vectors(bpe_run: Path) -> None:
    model = load(bpe_run)
    senses = model.senses("List", SENTENCES)
    words = [model.embed([text], pool="words")[0][place] for text, place in zip(SENTENCES, LIST_IS_WORD, strict=True)]
    for m in range(3):
        for n in range(3):
            assert senses.similarity[m, n] == pytest.approx(cosine(words[m], words[n]), abs=1e-5)
    assert (senses.layer, len(senses.layers)) == (1, 2)
    assert senses.similarity is senses.layers[1]
    assert senses.similarity[0, 1] < 0.999


@pytest.mark.parametrize("run", ["char_run", "word_run"])
def test_the_static_vector_is_the_same_everywhere(run: str, request: pytest.FixtureRequest) -> None:
    """The same holds for words, although splitting at white space alone would leave the full stop attached."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the full stop by itself was never seen
        senses = load(request.getfixturevalue(run)).senses("list", ["the list.", "a list is empty", "in the list"], layer=-1)
    assert np.array_equal(senses.static, np.ones((3, 3)))
    assert senses.similarity.min() < 0.999


def test_punctuation_is_read_by_itself_where_words_are_told_by_white_space(word_run: Path) -> None:
    model = load(word_run)
    with pytest.warns(UserWarning, match=r"^read as <unk>, never seen in training: \(, \), ;, don't, well-known$"):
        senses = model.senses("name", ["(the list) has a name; don't", "( the list ) has a name ; well-known"])
    assert senses.similarity[0, 1] == 1.0  # whatever comes behind, a language model has read the same before it


def test_the_second_time_is_another_place(char_run: Path) -> None:
    model = load(char_run)
    first, second = (model.senses(word, ["a name is a set", "is a list a name"]) for word in ("a", "a#2"))
    assert first.similarity[0, 1] != second.similarity[0, 1]
    assert np.array_equal(second.static, np.ones((2, 2)))


def test_a_layer_can_be_chosen_and_the_others_are_kept(bpe_run: Path) -> None:
    model = load(bpe_run)
    last, embedding = model.senses("list", SENTENCES[:2]), model.senses("list", SENTENCES[:2], layer=0)
    assert embedding.similarity is embedding.static
    for one, other in zip(last.layers, embedding.layers, strict=True):
        assert np.array_equal(one, other)


def test_word_in_context_takes_the_word_at_its_place(bpe_run: Path, tmp_path: Path) -> None:
    model = load(bpe_run)
    result = model.wic(write_wic(tmp_path))
    assert result["pairs"] == result["train_pairs"] == len(PAIRS)
    x = [(model.embed([a], pool=None)[0], model.embed([b], pool=None)[0]) for a, b, _ in PAIRS]
    token = [_tokens_of_list(model, text) for pair in PAIRS for text in pair[:2]]
    cosines = [cosine(a[token[2 * n]].mean(0), b[token[2 * n + 1]].mean(0)) for n, (a, b) in enumerate(x)]
    same = [pair[2] for pair in PAIRS]
    best = max(sum((c >= t) == s for c, s in zip(cosines, same, strict=True)) for t in [*cosines, 2.0])
    assert result["train_accuracy"] == result["accuracy"] == best / len(PAIRS)
    assert sum((c >= result["threshold"]) == s for c, s in zip(cosines, same, strict=True)) == best
    assert result["layer"] == 1


def _tokens_of_list(model: Run[Any], text: str) -> list[int]:
    """The last time "list" stands in the text."""
    spelled, places = "", []
    at = text.rindex("list")
    for n, id in enumerate(model.ids(text)):
        piece = model.tokenizer.token(int(id))
        begin, spelled = len(spelled), spelled + piece
        if begin < at + 4 and len(spelled) > at:
            places.append(n)
    return places


def test_the_source_of_a_translator_is_measured_where_it_begins_later(numbers: Run[Any], tmp_path: Path) -> None:
    """White space before a source is not read, so that places in it move."""
    pairs = [("4 2", "4 3", True), ("2 2", "4 2", False)]
    plain = numbers.wic(write_wic(tmp_path / "plain", pairs, "4", first=True))
    moved = numbers.wic(write_wic(tmp_path / "moved", [(f"  {a}", f" {b}", same) for a, b, same in pairs], "4", first=True))
    assert plain == moved
    words = write_wic(tmp_path / "spaces", [("4  2", "4 3", True), ("2 2", "4 2", False)], "  ", first=False)
    with pytest.raises(DataError, match=r"'  ', characters 1 to 3 of '4  2.*has no token; expected a word"):
        numbers.wic(words)
    assert plain["static_threshold"] != 0


def test_verify_can_measure_what_a_masked_run_knows_of_senses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tomli_w import dumps

    from firth.experiments.verify import verify
    from firth.tasks.abilities import contextual_vectors as embedding
    from firth.text.datasets.wic import read_wic

    folder = write_wic(tmp_path)
    monkeypatch.setattr(embedding, "read_wic", lambda given, progress: read_wic(folder))
    table = recipe_table("bpe", steps=3) | {
        "model": {"family": "encoder", "kind": "gru", "width": 8},
        "objective": {"kind": "masked"},
        "expected": {"metric": "wic_accuracy", "direction": "higher", "split": "valid", "measured": 0.5, "tolerance": 0.5},
    }
    recipe = tmp_path / "r.toml"
    recipe.write_text(dumps(table), encoding="utf-8")
    verdict = verify(str(recipe), progress=False)
    model = load(train_recipe(compose(table), tmp_path / "run").path)
    assert (verdict.metric, verdict.split, verdict.measured) == ("wic_accuracy", "valid", model.wic(folder)["accuracy"])
    with pytest.raises(ConfigError, match='expected\\.metric is "wic_accuracy", which is measured on wic\'s'):
        compose(table | {"expected": table["expected"] | {"split": "test"}})
    json.dumps(model.wic(folder))
