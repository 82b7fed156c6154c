"""A run keeps the weights with the lowest loss, or with the best metric that training.select names."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import tiny, untrained
from torch import Tensor

from firth import files
from firth.errors import Diverged
from firth.models import Network
from firth.tasks.next_token import next_token
from firth.text.data.running_text import prepare
from firth.training.folder import RunFolder
from firth.training.loop import Training
from firth.training.trainer import selection_loss, train

# The loss is lowest at step 3, BLEU highest at step 2, exact match highest at steps 4 and 5.
VALID: dict[int, dict[str, Any]] = {
    1: {"loss": 3.0, "bleu": 5.0, "exact": 0.0},
    2: {"loss": 2.0, "bleu": 30.0, "exact": 0.1},
    3: {"loss": 1.0, "bleu": 20.0, "exact": 0.0},
    4: {"loss": 1.5, "bleu": 25.0, "exact": 0.5},
    5: {"loss": 1.6, "bleu": 26.0, "exact": 0.5},
    6: {"loss": 1.7, "bleu": 0.0, "exact": 0.2},
}


def trained(folder: Path, **settings: Any) -> tuple[Training, dict[int, Tensor]]:
    """A tiny training with made-up validation, and a weight of each step. Of running text no recipe may select by BLEU, so that
    comes in behind its back: the trainer does not know what it trains."""
    recipe = tiny("gru", steps=6, evaluate_every=1)
    data = prepare(recipe.data, recipe.tokenizer)
    training, weights = untrained(recipe, data), {}
    run = RunFolder.create(folder, recipe.toml(), data.tokenizer.to_json())

    def evaluate(network: Network) -> dict[str, Any]:
        weights[training.step] = training.model.state_dict()["embedding.weight"].clone()
        return VALID[training.step]

    config = dataclasses.replace(recipe.training, **settings)
    train(training, next_token, config, run, evaluate=evaluate, watch=lambda seen: None)
    return training, weights


@pytest.mark.parametrize(("select", "step"), [("loss", 3), ("bleu", 2), ("exact", 4)])
def test_the_best_by_what_selects_is_kept_and_of_equals_the_earlier(select: str, step: int, tmp_path: Path) -> None:
    training, weights = trained(tmp_path / "run", select=select)
    kept = files.load_tensors(tmp_path / "run" / "model.safetensors")[0]["embedding.weight"]
    assert training.best_step == step
    assert [n for n, weight in weights.items() if torch.equal(kept, weight)] == [step]


@pytest.mark.parametrize(("select", "last"), [("loss", 5), ("bleu", 4), ("exact", 6)])
def test_patience_counts_from_the_best_by_what_selects(select: str, last: int, tmp_path: Path) -> None:
    training, _ = trained(tmp_path / "run", select=select, patience=2)
    assert training.step == last


def test_a_loss_is_better_when_it_is_lower_and_all_else_when_it_is_higher() -> None:
    assert selection_loss(VALID[3], "loss") < selection_loss(VALID[2], "loss")
    for select in ("bleu", "exact"):
        assert selection_loss(VALID[4], select) < selection_loss(VALID[3], select)


def test_a_loss_that_is_no_number_stops_the_run_whatever_selects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VALID, 2, {"loss": math.nan, "bleu": 50.0, "exact": 1.0})
    with pytest.raises(Diverged, match="the validation loss became nan at step 2"):
        trained(tmp_path / "run", select="bleu")
