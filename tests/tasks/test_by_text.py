"""Metrics text by text: their sums are what `evaluate` says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from option_examples import Shelf

import firth
from firth.evaluation.perplexity import nats_by_token
from firth.progress import silent
from firth.tasks.running_text import text_of

METRICS = {
    "char": {"loss", "perplexity", "bits_per_character"},
    "transformer": {"loss", "perplexity", "bits_per_character"},
    "bpe": {"loss", "perplexity", "bits_per_character"},
    "word": {"loss", "perplexity"},
    "classifier": {"accuracy", "macro_f1", "loss"},
    "tagger": {"accuracy", "loss"},
    "translator": {"bleu", "chrf", "exact", "loss", "perplexity"},
    "answers": {"exact", "f1"},
}


@pytest.fixture(scope="module")
def shelf(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return Shelf(request, tmp_path_factory.mktemp("shelf"))


@pytest.mark.filterwarnings("ignore::UserWarning")  # translations that are cut off
@pytest.mark.parametrize("name", METRICS)
def test_the_sums_are_what_evaluate_says(shelf: Shelf, name: str) -> None:
    run = firth.load(shelf[name])
    told = run.evaluate(split="train", progress=False)
    judged = run.by_text(split="train", progress=False)
    assert judged is not None
    assert set(judged.metrics) >= METRICS[name]
    assert judged.name == "train"
    for metric, counts in judged.metrics.items():
        # The first token is not predicted: `evaluate` counts its characters as a mean token's.
        assert counts.value == pytest.approx(told[metric], rel=1e-3 if metric == "bits_per_character" else 1e-5), metric
        assert len(counts.count_NK) > 1


@pytest.mark.parametrize("name", ["chat", "swaps", "masked"])
def test_other_tasks_have_no_counts(shelf: Shelf, name: str) -> None:
    assert firth.load(shelf[name]).by_text(progress=False) is None


@pytest.mark.parametrize("streams", [1, 3])
def test_the_losses_of_tokens_are_in_the_order_of_the_text(char_run: Path, streams: int) -> None:
    run = firth.load(char_run)
    _, text = text_of(run, None, "valid", silent)
    nats = nats_by_token(run.network, text, batch=streams, context=5)
    ids = torch.from_numpy(np.asarray(text.ids, np.int64))
    length = (len(ids) - 1) // streams
    with torch.inference_mode():
        expected = []
        for first in [*range(0, streams * length, length), streams * length]:  # the rest is a stream of its own
            part = ids[first : first + length + 1] if first < streams * length else ids[first:]
            if len(part) > 1:
                logits, _ = run.network(part[None, :-1], None)
                expected.append(F.cross_entropy(logits[0], part[1:], reduction="none"))
    assert torch.from_numpy(nats) == pytest.approx(torch.cat(expected), abs=1e-5)
