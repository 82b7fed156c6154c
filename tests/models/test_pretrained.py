"""Word vectors as the embedding of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from shares import half

from firth.api import compose, load, train_recipe
from firth.api.training import Watcher
from firth.errors import ConfigError
from firth.models import ConditionalDecoder
from firth.vectors import WordVectors

WORDS = ["the", "cat", "sat", "mat", "elsewhere"]
TEXT = "The cat sat on the mat and the cat sat still\n" * 20


@pytest.fixture
def vectors(tmp_path: Path) -> WordVectors:
    made = WordVectors(WORDS, np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32))
    made.save(tmp_path / "v.firth")
    return made


def table(tmp_path: Path, **model: Any) -> dict[str, Any]:
    size = {"width": 6} if model.get("kind") == "transformer" else {"width": 8, "embedding": 6}
    return {
        "data": {"text": TEXT, "valid": 0.0},
        "tokenizer": {"kind": "word"},
        "model": {"kind": "lstm", **size, "vectors": str(tmp_path / "v.firth"), **model},
        "training": {"steps": 3, "batch": 2, "context": 8, "device": "cpu", "rate": 0.1, "schedule": "constant"},
    }


def rows(run: Path, words: list[str]) -> torch.Tensor:
    model = load(run, "cpu")
    tokens = [model.tokenizer.token(id) for id in range(model.tokenizer.vocab)]
    return model.network.embedding.weight.detach()[[tokens.index(word) for word in words]]


@pytest.mark.parametrize("model", [{"kind": "lstm"}, {"kind": "gru", "tied": True}, {"kind": "transformer", "heads": 1}])
def test_words_start_from_their_vectors_and_are_trained(model: dict[str, Any], vectors: WordVectors, tmp_path: Path) -> None:
    still = compose(table(tmp_path, **model), ["training.rate=1e-30"])
    run = train_recipe(still, tmp_path / "still").path
    expected = torch.from_numpy(np.stack([vectors[word] for word in ("the", "cat", "sat", "mat")]))
    assert torch.equal(rows(run, ["the", "cat", "sat", "mat"]), expected)
    assert torch.equal(rows(run, ["The"]), expected[:1]), "found in lower case"
    moved = rows(train_recipe(compose(table(tmp_path, **model)), tmp_path / "run").path, ["the", "cat"])
    assert not torch.isclose(moved, expected[:2], atol=1e-3).all()


def test_words_without_a_vector_keep_the_one_drawn_as_long_as_the_others_are(vectors: WordVectors, tmp_path: Path) -> None:
    still = ["training.rate=1e-30"]
    with_file = train_recipe(compose(table(tmp_path), still), tmp_path / "a").path
    plain = table(tmp_path)
    plain["model"].pop("vectors")
    without = train_recipe(compose(plain, still), tmp_path / "b").path
    numbers = torch.from_numpy(np.stack([vectors[word] for word in ("the", "the", "cat", "sat", "mat")]))  # The, the, …
    spread = numbers.square().mean().sqrt()  # beside 1, that of an LSTM's first embedding
    assert torch.allclose(rows(with_file, ["still", "on"]), rows(without, ["still", "on"]) * spread)
    assert not torch.allclose(spread, torch.tensor(1.0), atol=0.01)


def test_fixed_vectors_stay_and_the_rest_learns(vectors: WordVectors, tmp_path: Path) -> None:
    run = train_recipe(compose(table(tmp_path, vectors_fixed=True)), tmp_path / "run").path
    assert torch.equal(rows(run, ["cat"])[0], torch.from_numpy(vectors["cat"]))
    untrained = train_recipe(compose(table(tmp_path, vectors_fixed=True), ["training.rate=1e-30"]), tmp_path / "still").path
    one, other = load(run, "cpu").network.state_dict(), load(untrained, "cpu").network.state_dict()
    assert torch.equal(one["embedding.weight"], other["embedding.weight"])
    assert not torch.equal(one["output.weight"], other["output.weight"])


@pytest.mark.parametrize("fixed", [False, True])
def test_a_run_is_resumed_without_the_file(fixed: bool, vectors: WordVectors, tmp_path: Path) -> None:
    recipe = table(tmp_path, vectors_fixed=fixed)
    straight = train_recipe(compose(recipe, ["training.steps=6"]), tmp_path / "straight").path
    half = train_recipe(compose(recipe), tmp_path / "half").path
    (tmp_path / "v.firth").unlink()
    train_recipe(compose(recipe, ["training.steps=6"]), half, resume=True)
    one, other = load(half, "cpu").network.state_dict(), load(straight, "cpu").network.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_it_is_said_how_many_tokens_have_a_vector(vectors: WordVectors, tmp_path: Path) -> None:
    said: list[str] = []
    train_recipe(compose(table(tmp_path)), tmp_path / "run", watcher=Watcher(notice=said.append))
    assert said == [f"5 of 10 tokens have a vector in {tmp_path / 'v.firth'}"]


def test_what_does_not_fit_is_refused(vectors: WordVectors, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"have dimension 6, the model's embedding 5; set model.embedding.width = 6"):
        train_recipe(compose(table(tmp_path, embedding=5)), tmp_path / "run")
    with pytest.raises(ConfigError, match=r"have dimension 6, the model's embedding 8; set model.width = 6"):
        train_recipe(compose(table(tmp_path, kind="transformer", width=8, heads=1)), tmp_path / "run")
    with pytest.raises(ConfigError, match=r"none of the .* tokens has a vector in .*tokenizer.kind"):
        train_recipe(compose(table(tmp_path), ["tokenizer.kind=char"]), tmp_path / "run")
    with pytest.raises(ConfigError, match=r"model.embedding.vectors_fixed needs model.embedding.vectors, which is missing"):
        compose({**table(tmp_path), "model": {"kind": "lstm", "vectors_fixed": True}})


PAIRS = "source\ttarget\n" + "the cat sat\tLE CHAT\nthe mat\tLE TAPIS\nthe cat\tLE CHAT\nsat\tASSIS\n" * 3
TRANSLATORS: list[dict[str, Any]] = [
    {"kind": "gru", "width": 8, "embedding": 6},
    {"kind": "transformer", "width": 6, "heads": 1, "depth": 1},
    {"kind": "transformer", "width": 6, "heads": 1, "depth": 1, "shared": True},
    {"kind": "prefix", "width": 6, "heads": 1, "depth": 1},
]


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("model", half(TRANSLATORS), ids=lambda model: "-".join(map(str, model.values())))
def test_a_translator_reads_its_source_with_them(
    model: dict[str, Any], fixed: bool, vectors: WordVectors, tmp_path: Path
) -> None:
    (tmp_path / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
    joint = bool(model.get("shared")) or model["kind"] == "prefix"
    table = {
        "data": {"path": str(tmp_path / "pairs.tsv"), "valid": 0.0},
        "tokenizer": {"kind": "word", "joint": joint},
        "model": {"family": "seq2seq", **model, "vectors": str(tmp_path / "v.firth"), "vectors_fixed": fixed},
        "training": {"steps": 4, "batch_tokens": 64, "context": 8, "device": "cpu", "rate": 0.1, "schedule": "constant"},
    }
    notices: list[str] = []
    run = train_recipe(compose(table, ["training.steps=2"]), tmp_path / "run", watcher=Watcher(notice=notices.append)).path
    assert any("4 of" in notice for notice in notices)
    (tmp_path / "v.firth").unlink()  # a run that goes on does not need it
    run = train_recipe(compose(table), tmp_path / "run", resume=True).path
    translator = load(run, "cpu")
    assert isinstance(translator.network, ConditionalDecoder)
    tokens = [translator.source_tokenizer.token(id) for id in range(translator.source_tokenizer.vocab)]
    row_Nd = translator.network.source_embedding.weight.detach()[[tokens.index(word) for word in WORDS[:4]]]
    expected_Nd = torch.from_numpy(np.stack([vectors[word] for word in WORDS[:4]]))
    assert torch.equal(row_Nd, expected_Nd) == fixed
