"""Masked tokens and span corruption from recipe to run: they learn, survive a stop to the bit, and say what they cannot do."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from shares import some
from tiny_runs import assert_stopping_changes_nothing

from firth.api import compose, load, train_recipe
from firth.config import Table
from firth.errors import ConfigError, DataError
from firth.models import MaskedLM
from firth.tasks.run import Run
from firth.text.batches.masking import Masking, masked_sweep
from firth.text.batches.span_corruption import Corruption, corrupted_sweep
from firth.text.data.running_text import prepare

SENTENCES = ("the cat sat on the mat", "the dog sat on the rug", "a bird sang in the tree", "a fish swam in the sea")
TEXT = "".join(f"{sentence} .\n" for _ in range(30) for sentence in SENTENCES)
TRANSFORMER = {"kind": "transformer", "width": 16, "depth": 1, "heads": 2}


def pretraining(objective: str, model: Table | None = None, **training: Any) -> Table:
    family = {"masked": "encoder", "span-corruption": "seq2seq"}[objective]
    settings = {"steps": 8, "batch": 4, "context": 16, "device": "cpu", "rate": 0.01, "log_every": 1, "evaluate_every": 4}
    return {
        "data": {"text": TEXT, "valid": 0.2},
        "tokenizer": {"kind": "word"},
        "model": {"family": family} | (model or TRANSFORMER),
        "objective": {"kind": objective},
        "training": settings | training,
    }


MODELS: dict[str, tuple[str, Table]] = {
    "masked, transformer": ("masked", TRANSFORMER | {"dropout": 0.1}),
    "masked, lstm": ("masked", {"kind": "lstm", "width": 8, "embedding": 6}),
    "spans, transformer": ("span-corruption", TRANSFORMER | {"shared": True, "dropout": 0.1}),
    "spans, rnnsearch": ("span-corruption", {"kind": "gru", "width": 8, "embedding": 6}),
    "spans, rnnenc": ("span-corruption", {"kind": "lstm", "attention": "none", "width": 8, "shared": True, "tied": True}),
}


@pytest.mark.parametrize("name", some(MODELS, "masked, transformer", "spans, transformer"))
def test_a_run_that_was_stopped_goes_on_to_the_bit(name: str, tmp_path: Path) -> None:
    objective, model = MODELS[name]
    recipe = compose(pretraining(objective, model, steps=14, evaluate_every=5, checkpoint_every=4))
    assert_stopping_changes_nothing(recipe, tmp_path, at=7)


@pytest.fixture(scope="module")
def masked_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = pretraining("masked", {"kind": "gru", "width": 24}, steps=150, batch=16, rate=0.03, evaluate_every=0)
    return train_recipe(compose(table), tmp_path_factory.mktemp("masked") / "run").path


def test_masked_words_are_found_by_what_stands_around_them(masked_run: Path) -> None:
    model = load(masked_run, "cpu")
    result: dict[str, Any] = model.evaluate(split="valid")
    assert result["accuracy"] > 0.8, "a sixth of the words is the most frequent one"
    assert result["perplexity"] == pytest.approx(math.exp(result["loss"]))
    (first,), (second,) = model.fill("the cat __ on the mat .", proposals=1), model.fill("a __ swam in the sea .", proposals=1)
    assert (first[0].filler, second[0].filler) == ("sat", "fish")


def test_fillers_have_their_probability_given_all_the_rest(masked_run: Path) -> None:
    model = load(masked_run, "cpu")
    assert isinstance(model.network, MaskedLM)
    blanks = model.fill("the __ sat on the __ .", proposals=3)
    assert [len(blank) for blank in blanks] == [3, 3]
    tokens = ("<eos>", "the", "<mask>", "sat", "on", "the", "<mask>", ".", "<eos>")
    known = {model.tokenizer.token(id): id for id in range(model.tokenizer.vocab)} | {"<mask>": model.tokenizer.vocab}
    p_TV = torch.softmax(model.network(torch.tensor([[known[token] for token in tokens]])).detach()[0].double(), -1)
    for place, blank in zip((2, 6), blanks, strict=True):
        for filling in blank:
            assert filling.probability == pytest.approx(float(p_TV[place, known[filling.filler]]), rel=1e-4)
        assert [one.probability for one in blank] == sorted((one.probability for one in blank), reverse=True)
    chosen = model.fill("the __ sat", ["dog", "cat", "dog"])[0]
    assert {one.filler for one in chosen} == {"dog", "cat"}
    for text, candidates, message in (
        ("no blank", None, r"the text has no blank; expected __ at least once"),
        ("a __", ["a cat"], "the candidate 'a cat' is 2 tokens"),
        ("a __", ["zebra"], r"the candidate 'zebra' is 1 tokens \(<unk>\), but a mask stands"),
        ("a __", [" "], "the candidate '' is 0 tokens"),
    ):
        with pytest.raises(DataError, match=message):
            model.fill(text, candidates)


def by_hand(model: Run[Any], masking: Masking) -> tuple[list[float], int]:
    """−log p of each masked token of the validation text, one window at a time, and how many are the most probable ones."""
    text = prepare(model.recipe.data, model.tokenizer).valid
    assert text is not None
    assert isinstance(model.network, MaskedLM)
    nats, right = [], 0
    for part in masked_sweep(text.ids, 1, 16, masking):
        log_p_TV = torch.log_softmax(model.network(torch.from_numpy(part.token_BT)).detach()[0].double(), -1)
        for place, target in zip(part.place_BM[0], part.target_BM[0], strict=True):
            if target >= 0:
                nats.append(-float(log_p_TV[place, target]))
                right += int(log_p_TV[place].argmax() == target)
    return nats, right


def test_evaluation_is_the_mean_over_the_masked_places_of_the_whole_text(masked_run: Path) -> None:
    model = load(masked_run, "cpu")
    nats, right = by_hand(model, Masking(model.tokenizer, 0.15))
    result: dict[str, Any] = model.evaluate(split="valid")
    assert result["tokens"] == len(nats)
    assert result["loss"] == pytest.approx(np.mean(nats), rel=1e-5)
    assert result["accuracy"] == right / len(nats)
    assert result == model.evaluate(split="valid"), "asked the same each time"


def test_another_file_can_be_evaluated(masked_run: Path, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("sea the on cat bird mat sat\n" * 9)
    model = load(masked_run, "cpu")
    result: dict[str, Any] = model.evaluate(tmp_path / "other.txt")
    assert result["split"] == str(tmp_path / "other.txt")
    assert result["loss"] > float(model.evaluate(split="valid")["loss"])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["spans, transformer", pytest.param("spans, rnnsearch", marks=pytest.mark.long)])
def test_spans_are_learned_and_measured(name: str, tmp_path: Path) -> None:
    objective, model = MODELS[name]
    recipe = compose(pretraining(objective, model, steps=100, batch=8, rate=0.02))
    run = load(train_recipe(recipe, tmp_path / "run").path, "cpu")
    scores: dict[str, Any] = run.evaluate(split="valid")
    assert scores["perplexity"] == pytest.approx(math.exp(scores["loss"]))
    assert scores["perplexity"] < 8, "of some twenty words and sentinels"
    text = prepare(run.recipe.data, run.tokenizer).valid
    assert text is not None
    network, corruption = run.network, Corruption(run.tokenizer.vocab, 16)
    nats: list[float] = []
    for part in corrupted_sweep(text.ids, 1, corruption):
        given = (torch.from_numpy(array) for array in (part.source_BS, part.source_length_B, part.input_BT))
        log_p_TV = torch.log_softmax(network(*given).detach()[0].double(), -1)
        nats += (-log_p_TV.gather(1, torch.from_numpy(part.target_BT[0])[:, None])).flatten().tolist()
    assert scores["tokens"] == len(nats)
    assert scores["loss"] == pytest.approx(np.mean(nats), rel=1e-5)


def test_whole_words_are_masked_where_a_recipe_asks(tmp_path: Path) -> None:
    table = pretraining("masked") | {"tokenizer": {"kind": "bpe", "vocab": 280}}
    table["objective"] |= {"whole_words": True, "share": 0.3}
    model = load(train_recipe(compose(table), tmp_path / "run").path, "cpu")
    result: dict[str, Any] = model.evaluate(split="valid")
    nats, right = by_hand(model, Masking(model.tokenizer, 0.3, whole_words=True))
    assert (result["tokens"], result["accuracy"]) == (len(nats), right / len(nats))
    assert result["loss"] == pytest.approx(np.mean(nats), rel=1e-5)
    pieces, _ = by_hand(model, Masking(model.tokenizer, 0.3))
    assert result["loss"] != pytest.approx(np.mean(pieces), rel=1e-3), "masked pieces would have another loss"


REFUSED = {
    "generate": lambda model: model.generate("a"),
    "classify": lambda model: model.classify(["a"]),
    "translate": lambda model: model.translate(["a"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_cannot_do_is_refused_with_what_it_can(name: str, masked_run: Path) -> None:
    with pytest.raises(ConfigError, match=r"this run is a masked language model and cannot \w+; it can: fill, evaluate, embed\."):
        REFUSED[name](load(masked_run))


def test_a_run_of_spans_does_not_translate_and_has_no_mask(tmp_path: Path) -> None:
    model: Run[Any] = load(train_recipe(compose(pretraining("span-corruption", steps=1)), tmp_path / "run").path)
    with pytest.raises(ConfigError, match=r"a model trained by span corruption and cannot translate; it can: evaluate"):
        model.translate(["a"])
    with pytest.raises(ConfigError, match=r"a model trained by span corruption and cannot fill; it can: evaluate"):
        model.fill("a __")


@pytest.mark.parametrize(
    ("objective", "setting", "message"),
    [
        ("masked", "objective.share=1.0", r"objective\.share is 1\.0; expected 0 < share < 1"),
        ("masked", "model.context=8", r"training\.context = 16 needs 16 positions, but model\.context = 8"),
        ("masked", "training.carry=true", r"training\.carry is true, but masked windows carry no state\."),
        ("masked", "training.select=bleu", r'training\.select is "bleu"; for masked choose "loss" or'),
        ("masked", "training.batch_tokens=99", r"training\.batch_tokens = 99 only applies to translation;"),
        ("span-corruption", "objective.length=0.5", r"objective\.length is 0\.5; expected 1 or more"),
        ("span-corruption", "training.context=1", r"training\.context is 1; expected 2 or more"),
        ("span-corruption", "tokenizer.joint=true", r"tokenizer\.joint = true only applies to translation;"),
    ],
)
def test_settings_that_do_not_fit_are_refused(objective: str, setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compose(pretraining(objective), [setting])


def test_words_by_themselves_and_other_families_are_refused() -> None:
    with pytest.raises(ConfigError, match=r'model\.kind = "average" reads each token by itself'):
        compose(pretraining("masked", {"kind": "average"}))
    with pytest.raises(ConfigError, match=r'objective\.kind = "masked" needs model\.family = "encoder"; it'):
        compose(pretraining("masked") | {"model": {"family": "language", "kind": "gru"}})
