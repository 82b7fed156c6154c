"""The notice about an output layer that accounts for most of the FLOPs."""

from __future__ import annotations

from typing import Any

import pytest
from runs import recipe_table

from firth.api import Watcher, compose, output_cost, train_recipe
from firth.api.output_cost import costly_output
from firth.models import seq2seq
from firth.models.seq2seq_config import RecurrentSeq2SeqConfig
from firth.text.config import TokenizerConfig


def translator(tied: bool = False, vocab: int = 300) -> tuple[Any, RecurrentSeq2SeqConfig]:
    config = RecurrentSeq2SeqConfig(kind="gru", width=8, tied=tied)
    return seq2seq(config, vocab, vocab), config


def test_a_vocabulary_of_all_words_is_named_with_its_cost_and_the_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    network, config = translator()
    assert costly_output(network, config, TokenizerConfig(kind="word"), "cpu") is None  # small
    monkeypatch.setattr(output_cost, "LARGE", 5_000)
    notice = str(costly_output(network, config, TokenizerConfig(kind="word"), "cpu"))
    assert notice.startswith("the output layer accounts for 84% of the FLOPs of this training: 300 tokens × 32 numbers for each")
    for remedy in (
        'tokenizer.kind = "bpe"',
        "tokenizer.vocab = 8000",
        "tokenizer.min_count = 5",
        "model.tied = true (8 instead of 32",
    ):
        assert remedy in notice
    assert "model.tied" not in str(costly_output(*translator(tied=True, vocab=900), TokenizerConfig(kind="word"), "cpu"))
    assert "a smaller tokenizer.vocab" in str(costly_output(network, config, TokenizerConfig(kind="bpe"), "cpu"))
    assert costly_output(network, config, TokenizerConfig(kind="word"), "cuda") is None
    assert costly_output(*translator(vocab=20), TokenizerConfig(kind="word"), "cpu") is None


def test_a_training_says_it_before_it_starts(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_cost, "LARGE", 1)
    monkeypatch.setattr(output_cost, "MOST", 0.0)
    notices: list[str] = []
    train_recipe(compose(recipe_table("word", context=8, steps=1)), tmp_path / "run", watcher=Watcher(notice=notices.append))
    assert any("of the FLOPs of this training" in notice for notice in notices)
