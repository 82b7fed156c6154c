"""A tokenizer.json that is damaged, or belongs to other weights, is refused in one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import firth
from firth import files
from firth.api import train_recipe
from firth.api.recipe import read_run_recipe
from firth.errors import DataError, RunError
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.text.tokenizers.tokenizer_json import parsed


@pytest.fixture
def run(char_run: Path, tmp_path: Path) -> Path:
    """A copy whose weights do not know their tokenizer, as those of older versions."""
    copy = Path(shutil.copytree(char_run, tmp_path / "run"))
    tensors, metadata = files.load_tensors(copy / "model.safetensors")
    files.save_tensors(copy / "model.safetensors", tensors, {key: metadata[key] for key in ("format", "step")})
    return copy


def changed(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    table = json.loads((run / "tokenizer.json").read_text(encoding="utf-8"))
    change(table["model"]["vocab"])
    (run / "tokenizer.json").write_text(json.dumps(table), encoding="utf-8")


def test_an_old_run_without_a_hash_still_loads_and_writes_the_same(run: Path, char_run: Path) -> None:
    old, new = (firth.load(path, "cpu").generate("the", tokens=20, temperature=0) for path in (run, char_run))
    assert old == new


def test_bytes_that_are_not_utf8_are_damage(run: Path) -> None:
    (run / "tokenizer.json").write_bytes(b'{"model": \xff}')
    with pytest.raises(DataError, match=r"tokenizer\.json is damaged: byte 0xff is not UTF-8\. Restore that file\."):
        firth.load(run, "cpu")


@pytest.mark.parametrize("id", [999_999_999, 10**22, 1000])
def test_an_id_far_away_is_damage(run: Path, id: int) -> None:
    changed(run, lambda vocabulary: vocabulary.update({"a": id}))
    with pytest.raises(DataError, match=rf"is damaged: the ids of its \d+ tokens, up to {id:,}, have gaps"):
        firth.load(run, "cpu")


@pytest.mark.parametrize("id", [-1, "1", None, True, 0.5])
def test_what_is_no_id_is_damage(run: Path, id: Any) -> None:
    changed(run, lambda vocabulary: vocabulary.update({"a": id}))
    with pytest.raises(DataError, match=r"is damaged: the id of the token 'a' is"):
        firth.load(run, "cpu")


def test_nested_brackets_are_no_tokenizer() -> None:
    with pytest.raises(DataError, match=r"is not a tokenizer\.json"):
        Tokenizer.from_json("[" * 100_000)


def test_ids_beyond_the_embedding_of_a_public_model_are_refused() -> None:
    text = json.dumps({"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 999_999_999}, "unk_token": "a"}})
    with pytest.raises(DataError, match=r"the tokenizer has 1,000,000,000 tokens, but the embedding has 10 rows"):
        parsed(text, rows=10)


def swap(vocabulary: dict[str, int]) -> None:
    vocabulary["a"], vocabulary["e"] = vocabulary["e"], vocabulary["a"]


def test_a_valid_tokenizer_that_is_not_that_of_the_weights(char_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(char_run, tmp_path / "run"))
    changed(run, swap)
    message = r"tokenizer\.json is not the one that these weights were trained with\. Restore it"
    with pytest.raises(RunError, match=message):
        firth.load(run, "cpu")
    with pytest.raises(RunError, match=message):
        train_recipe(read_run_recipe(run / "recipe.toml"), run, resume=True)
    (run / "model.safetensors").unlink()  # then the checkpoint is read, which holds the tokenizer itself
    with pytest.raises(RunError, match=message):
        firth.load(run, "cpu")
