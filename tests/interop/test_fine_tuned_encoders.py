"""training.init with a public encoder: a recipe without [model] and [tokenizer] starts from its weights, in full or with LoRA."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import questions
import reviews
import tags
import torch
from foreign_encoders import BERT, built, saved

import firth
from firth.api import compose, export_model, train_recipe
from firth.config import Table
from firth.errors import ConfigError

pytestmark = pytest.mark.filterwarnings("ignore:read as <unk>")  # the vocabulary is tiny

STILL = {"steps": 1, "rate": 1e-30, "schedule": "constant", "evaluate_every": 0}  # the weights stay what they begin as
TABLES: dict[str, Any] = {
    "classification": lambda folder: reviews.classifier_table(reviews.write(folder / "reviews.csv")),
    "tagging": lambda folder: tags.tagger_table(tags.write(folder / "tags.conll")),
    "answer": lambda folder: questions.answer_table(questions.write_questions(folder / "questions.json")),
}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("bert") / "model", built("Bert", "ForMaskedLM", **BERT))


def recipe(task: str, folder: Path, init: Path, model: Table | None = None, **training: Any) -> Table:
    table = TABLES[task](folder)
    del table["model"], table["tokenizer"]
    more = {} if model is None else {"model": model}
    settings = {"batch": 4, "context": 40, "device": "cpu"}
    return {**table, **more, "training": settings | STILL | training | {"init": str(init)}}


@pytest.mark.parametrize("task", list(TABLES))
def test_a_run_starts_from_the_encoder_of_a_public_model(task: str, bert: Path, tmp_path: Path) -> None:
    run = firth.load(train_recipe(compose(recipe(task, tmp_path, bert)), tmp_path / "run").path, "cpu")
    there = firth.load(bert, "cpu")
    before, after = there.network.state_dict(), run.network.state_dict()
    taken = [name for name in before if name.startswith("encoder.")]
    assert set(taken) <= set(after)
    for name in taken:
        assert torch.equal(after[name], before[name][: len(after[name])]), name
    assert run.recipe.model.segments == 2
    assert run.recipe.imported is None
    assert run.tokenizer.begin == (2,)
    vectors = [one.embed(["the list is empty."], pool=None)[0] for one in (there, run)]
    np.testing.assert_allclose(*vectors, atol=1e-6)
    match task:
        case "classification":
            assert run.classify(["a great film"])[0].label in ("bad", "good")
        case "tagging":
            assert len(run.tag(["the list is empty"])[0].tags) == 4
        case "answer":
            assert run.answer("who is it", "Anna lives in Rome.").text


def test_lora_trains_adapters_beside_the_frozen_weights_of_a_public_model(bert: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    table = recipe("classification", tmp_path, bert, {"pool": "first", "dropout": 0.0}, lora=4, steps=30, rate=0.02)
    path = train_recipe(compose(table), tmp_path / "run").path
    before, base, after = (
        firth.load(bert, "cpu").network.state_dict(),
        load_file(path / "base.safetensors"),
        firth.load(path, "cpu").network.state_dict(),
    )
    name = "encoder.stack.blocks.0.attention.qkv.weight"
    assert torch.equal(base[name], before[name])
    assert not torch.equal(after[name], before[name])
    assert torch.equal(after[name][32:64], before[name][32:64]), "keys have no adapter"
    assert torch.equal(after["encoder.segment.weight"], before["encoder.segment.weight"])
    config = json.loads((path / "adapter" / "adapter_config.json").read_text())
    assert config["r"] == 4


def test_a_fine_tuned_classifier_can_be_exported_again(bert: Path, tmp_path: Path) -> None:
    from foreign_folders import transformers

    table = recipe("classification", tmp_path, bert, {"pool": "first", "pooler": "tanh"}, steps=3, rate=0.01)
    path = train_recipe(compose(table), tmp_path / "run").path
    folder = export_model(path, tmp_path / "exported")
    theirs = transformers.pipeline("text-classification", model=str(folder), tokenizer=str(folder), top_k=None)
    (scores,) = theirs(["a great list"])
    ours = firth.load(path, "cpu").classify(["a great list"])[0]
    assert {one["label"]: one["score"] for one in scores} == pytest.approx(ours.probabilities, rel=1e-4)


def test_settings_that_do_not_fit_are_refused(bert: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.width is 32 there and 64 here"):
        train_recipe(compose(recipe("classification", tmp_path, bert, {"width": 64})), tmp_path / "run")
    table = recipe("classification", tmp_path, bert) | {"tokenizer": {"kind": "word"}}
    with pytest.raises(ConfigError, match="has another vocabulary"):
        train_recipe(compose(table), tmp_path / "run")
