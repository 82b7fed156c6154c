"""training.freeze: frozen weights keep their values to the bit, and nothing is stored for them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reviews import classifier_table, write
from shares import half
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from tiny_runs import assert_identical, outcome, stopping_at, tiny, undisturbed
from torch import Tensor

from firth import files
from firth.api import Watcher, compose, load, train_recipe
from firth.api.recipe import Recipe
from firth.api.training import train_into
from firth.config import Table
from firth.errors import ConfigError, Interrupted
from firth.tasks.classification import ClassifierRun
from firth.training import checkpoint
from firth.training.loop import Training

MODEL: Table = {"family": "encoder", "kind": "transformer", "width": 8, "depth": 2, "heads": 2}


def recipe(folder: Path, **training: Any) -> Recipe:
    table = classifier_table(folder / "reviews.csv") | {"model": MODEL}
    table["training"] = {"steps": 6, "batch": 8, "rate": 0.05, "device": "cpu", "checkpoint_every": 3} | training
    return compose(table)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("freezing")
    write(folder / "reviews.csv")
    return folder


@pytest.mark.parametrize(
    ("freeze", "prefixes"),
    half(
        itertools.starmap(
            pytest.param,
            [
                (["encoder"], ["encoder."]),
                (["embedding"], ["encoder.embedding."]),
                (["embedding", "encoder.stack.blocks.0"], ["encoder.embedding.", "encoder.stack.blocks.0."]),
                (["output.bias"], ["output.bias"]),
            ],
        )
    ),
)
def test_frozen_weights_stay_as_they_are_to_the_bit_and_have_no_optimiser_state(
    freeze: list[str], prefixes: list[str], folder: Path, tmp_path: Path
) -> None:
    made = recipe(folder, freeze=freeze, weight_decay=0.1, average=0.9)
    before: dict[str, Tensor] = {}

    def begin(training: Training, recipe: Recipe) -> None:
        before.update({name: weight.clone() for name, weight in training.model.state_dict().items()})

    run = train_into(made, tmp_path / "run", watcher=Watcher(begin=begin))
    after = load(run.path).network.state_dict()
    frozen = {name for name in before if name.startswith(tuple(prefixes))}
    assert frozen
    for name, weight in after.items():
        assert torch.equal(weight, before[name]) == (name in frozen), name
    stored, _ = files.load_tensors(checkpoint.checkpoints(run)[0])
    for kind in ("optimizer", "average"):
        moved = {name.split("/")[1] for name in stored if name.startswith(f"{kind}/")}
        assert moved == before.keys() - frozen


def test_a_stopped_run_with_frozen_weights_resumes_to_the_bit(folder: Path, tmp_path: Path) -> None:
    made = recipe(folder, freeze=["encoder"])
    whole = undisturbed(made, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train_recipe(made, tmp_path / "run", watcher=stopping_at(4))
    train_recipe(made, tmp_path / "run", resume=True)
    assert_identical(outcome(tmp_path / "run"), whole)
    with pytest.raises(ConfigError, match=r"the run was started with training\.freeze"):
        train_recipe(recipe(folder, freeze=["embedding"]), tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("freeze", "message"),
    [
        (
            ["encode"],
            r'"encode", but this model has no such part\. Choose among embedding, encoder, output, .*Did you mean "encoder"\?',
        ),
        (["encoder", "decoder"], r'training\.freeze has "decoder", but this model has no such part'),
        (["enc"], r'training\.freeze has "enc"'),
        (["encoder", "output"], r"leaves nothing to train\. Remove a name"),
        ([], "expected the names of parts of the model"),
        (["output", "output"], "each once"),
    ],
)
def test_what_cannot_be_frozen_is_refused_before_anything_is_written(
    freeze: list[str], message: str, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        train_recipe(recipe(folder, freeze=freeze), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_adapters_freeze_by_themselves() -> None:
    with pytest.raises(ConfigError, match=r"training\.lora is 2, which already freezes .* Remove training\.freeze"):
        tiny("transformer", lora=2, init="runs/x", freeze=("embedding",))


def test_a_linear_probe_is_logistic_regression_on_the_vectors_of_the_frozen_encoder(tmp_path: Path) -> None:
    """Labels without a pattern, so that the best weights are finite: no loss is lower than that of sklearn's."""
    draw = np.random.default_rng(0)
    texts = [" ".join(draw.choice(list("abcdefgh"), draw.integers(1, 6))) for _ in range(80)]
    labels = [str(label) for label in draw.integers(0, 2, 80)]
    path = write(tmp_path / "r.csv", list(zip(texts, labels, strict=True)))
    table = classifier_table(path) | {"model": MODEL, "data": {"path": str(path), "valid": 0.0}}
    table["training"] = {"steps": 100, "batch": 80, "rate": 0.3, "final_rate_ratio": 0.0, "freeze": ["encoder"], "device": "cpu"}
    model: ClassifierRun = load(train_recipe(compose(table), tmp_path / "run").path)
    features = model.embed(texts)
    best = LogisticRegression(C=1e9, max_iter=10_000, tol=1e-9).fit(features, labels)
    expected = log_loss(labels, best.predict_proba(features))
    loss = model.evaluate(split="train")["loss"]
    assert expected - 1e-5 <= loss <= expected + 1e-3
    p_N = [one.probabilities["1"] for one in model.classify(texts)]
    np.testing.assert_allclose(p_N, best.predict_proba(features)[:, 1], atol=0.03)
