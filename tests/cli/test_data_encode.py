from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from shell import Firth


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FIRTH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FIRTH_WORKERS", "2")
    path = tmp_path / "my.txt"
    path.write_text("The list is a tuple, the tuple is sorted.\n" * 200)
    return path


def test_text_is_encoded_ahead_of_training(firth: Firth, text: Path) -> None:
    answer = firth("data", "encode", "docs-char-gru", f"--data.path={text}", "--workers", 3, "--json")
    assert (answer.code, os.environ["FIRTH_WORKERS"]) == (0, "3")
    parts = json.loads(answer.out)
    assert list(parts) == ["train", "valid"]
    assert sum(part["tokens"] for part in parts.values()) == text.stat().st_size
    for part in parts.values():
        assert sum(shard["tokens"] for shard in part["shards"]) == part["tokens"] == Path(part["path"]).stat().st_size // 2
    again = firth("data", "encode", "docs-char-gru", f"--data.path={text}")
    assert parts["train"]["path"] in again.out
    assert "8,232 tokens  shards: 1" in again.out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["docs-char-gru", "--data.path=nowhere.txt"], "nowhere.txt does not exist"),
        (["docs-char-gru", "--data.paht=my.txt"], "Did you mean"),
        (["dates-rnnsearch"], "the recipe reads sentence pairs, but only running text can be encoded ahead"),
    ],
)
def test_what_cannot_be_encoded_is_named(firth: Firth, text: Path, arguments: list[str], complaint: str) -> None:
    answer = firth("data", "encode", *arguments)
    assert answer.code != 0
    assert complaint in answer.err


def test_a_number_of_workers_that_is_none_is_refused(firth: Firth, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRTH_WORKERS", "many")
    answer = firth("data", "encode", "docs-char-gru", f"--data.path={text}")
    assert "FIRTH_WORKERS is 'many'; expected a number of threads, such as 4" in answer.err
