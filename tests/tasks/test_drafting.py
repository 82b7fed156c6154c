"""Runs that write with a draft: the same greedy text, the counts of proposals, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chat_lines import chat_table, trained_on_digits, write_chats
from shell import Firth

from firth.api import compose, load, train_recipe
from firth.decoding.search.speculative import Acceptance
from firth.errors import ConfigError


def test_a_draft_does_not_change_the_greedy_text(char_run: Path, transformer_run: Path) -> None:
    for target, draft in ((char_run, transformer_run), (transformer_run, char_run)):
        model, other, counts = load(target), load(draft), Acceptance()
        alone = model.generate("the list", temperature=0, tokens=60)
        assert model.generate("the list", temperature=0, tokens=60, draft=other) == alone
        config = model.generation({"temperature": 0.0, "tokens": 60})
        assert "".join(model.stream("the list", config, other, counts)) == alone
        assert 0 < counts.accepted <= counts.proposed


def test_a_sampled_text_ends_at_a_stop_string(char_run: Path, transformer_run: Path) -> None:
    model, draft = load(transformer_run), load(char_run)
    texts = [model.generate("the list", seed=seed, stop=".", draft=draft) for seed in range(3)]
    assert len(set(texts)) > 1
    assert not any("." in text for text in texts)
    assert texts[0] == model.generate("the list", seed=0, stop=".", draft=draft)


def test_a_draft_with_another_vocabulary_is_refused(char_run: Path, bpe_run: Path) -> None:
    with pytest.raises(ConfigError, match=r"another vocabulary, 290 bpe tokens instead of \d+ char tokens"):
        load(char_run).generate("the", draft=load(bpe_run))


def test_a_draft_does_not_search(char_run: Path, transformer_run: Path) -> None:
    with pytest.raises(ConfigError, match="beam is 3"):
        load(char_run).generate("the", beam=3, draft=load(transformer_run))


def test_a_draft_is_a_run_not_a_path(char_run: Path) -> None:
    with pytest.raises(ConfigError, match="the draft is a PosixPath"):
        load(char_run).generate("the", draft=char_run)


def test_generate_reports_how_much_was_accepted(firth: Firth, char_run: Path, transformer_run: Path) -> None:
    options = ("--tokens", 30, "--temperature", 0)
    alone = firth("generate", transformer_run, "the list", *options)
    assert firth("generate", transformer_run, "the list", *options, "--draft", char_run).out == alone.out
    told = json.loads(firth("generate", transformer_run, "the list", *options, "--draft", char_run, "--json").out)
    assert "the list" + told["continuation"] + "\n" == alone.out
    assert 0 < told["accepted"] <= told["proposed"]
    assert "accepted" not in json.loads(firth("generate", transformer_run, "the list", *options, "--json").out)
    refused = firth("generate", transformer_run, "the list", "--draft", char_run, "--beam", 2)
    assert refused.code == 2
    assert "beam is 2" in refused.err


def test_chat_with_a_draft_gives_the_same_answers(firth: Firth, tmp_path: Path) -> None:
    chats = write_chats(tmp_path / "c.jsonl")
    run = trained_on_digits()
    draft = train_recipe(compose(chat_table(chats, "gru", steps=5)), tmp_path / "draft").path
    assert load(run).chat("name 3", draft=load(draft)) == load(run).chat("name 3") == "three"
    answer = firth("chat", run, "--draft", draft, "--json", stdin=b"name 3\nagain\n")
    told = [json.loads(line) for line in answer.out.splitlines()]
    assert [one["answer"] for one in told] == ["three", "three"]
    assert all(one["proposed"] >= one["accepted"] for one in told)
    assert told[0]["proposed"] > 0
