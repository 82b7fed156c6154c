"""training.init = the folder of a public encoder–decoder: translators continue from its weights, whole or with LoRA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from encoder_decoder_folders import folder_of
from shares import half
from translations import write_pairs

import firth
from firth.api import compose, train_recipe
from firth.config import Table
from firth.training import log

STILL = {"steps": 1, "rate": 1e-30, "schedule": "constant"}  # weights stay what they begin as


def table(init: Path, data: Path, **training: Any) -> Table:
    settings = {"init": str(init), "steps": 20, "batch_tokens": 64, "context": 40, "rate": 0.01, "device": "cpu", "log_every": 1}
    return {
        "data": {"path": str(data), "valid": 0.1},
        "objective": {"kind": "translation"},
        "training": settings | training,
        "decoding": {"tokens": 8, "beam": 1},
    }


@pytest.mark.parametrize("name", half(["t5", "bart", "marian"]))
def test_a_translator_starts_from_the_weights_and_settings_of_a_folder(name: str, tmp_path: Path) -> None:
    folder, data = folder_of(name, tmp_path / "theirs"), write_pairs(tmp_path / "pairs.tsv")
    run = train_recipe(compose(table(folder, data, **STILL)), tmp_path / "run").path
    theirs, ours = firth.load(folder, "cpu"), firth.load(run, "cpu")
    assert ours.recipe.model == theirs.recipe.model
    for key, tensor in theirs.network.state_dict().items():
        assert torch.equal(tensor, ours.network.state_dict()[key]), key
    assert ours.tokenizer.decoder == theirs.tokenizer.decoder
    texts = ["one two", "three"]
    assert ours.translate(texts, beam=1, tokens=8) == theirs.translate(texts, beam=1, tokens=8)


@pytest.mark.parametrize("lora", half([0, 2]))
def test_a_fine_tuned_translator_lowers_its_loss(lora: int, tmp_path: Path) -> None:
    folder, data = folder_of("bart", tmp_path / "theirs"), write_pairs(tmp_path / "pairs.tsv")
    run = train_recipe(compose(table(folder, data, lora=lora)), tmp_path / "run").path
    losses = [line["loss"] for line in log.read(run / "log.jsonl")]
    assert losses[-1] < losses[0]
