"""training.init = a folder or GGUF file: language and chat models continue from public weights, whole or with LoRA."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from chat_lines import write_chats
from foreign_folders import TEXT, byte_level, gpt2, llama, saved
from gguf_files import written
from shares import half

import firth
from firth.api import compose, train_recipe
from firth.config import Table
from firth.errors import ConfigError, CorruptFile, DataError
from firth.text.conversation import Message

# A template in the style of ChatML whose tokens a byte-level tokenizer already has.
TEMPLATE = (
    "{% for message in messages %}{{ '<|begin|>' ~ message.role ~ '\\n' ~ message.content ~ '<|end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|begin|>assistant\\n' }}{% endif %}"
)
STILL = {"steps": 1, "rate": 1e-30, "schedule": "constant"}  # weights stay what they begin as


def language_table(init: Path, **training: Any) -> Table:
    settings = {"init": str(init), "steps": 6, "batch": 4, "context": 16, "rate": 0.01, "device": "cpu"}
    return {"data": {"text": TEXT, "valid": 0.1}, "training": settings | training}


def chat_table(init: Path, data: Path, **training: Any) -> Table:
    settings = {"init": str(init), "steps": 6, "batch": 4, "context": 96, "rate": 0.01, "device": "cpu"}
    return {
        "data": {"path": str(data), "valid": 0.1},
        "objective": {"kind": "conversation"},
        "training": settings | training,
        "decoding": {"tokens": 4, "temperature": 0.0},
    }


def instruct(folder: Path) -> Path:
    saved(folder, llama(), byte_level(begin=True))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": TEMPLATE}))
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    return folder


@pytest.mark.parametrize("build", [gpt2, llama])
def test_a_language_model_starts_from_the_weights_vocabulary_and_settings_of_a_folder(build: Any, tmp_path: Path) -> None:
    folder = saved(tmp_path / "theirs", build())
    run = train_recipe(compose(language_table(folder, **STILL)), tmp_path / "run").path
    theirs, ours = firth.load(folder, "cpu"), firth.load(run, "cpu")
    assert ours.recipe.model == theirs.recipe.model
    assert ours.recipe.imported is None
    assert ours.recipe.tokenizer.kind == "imported"
    for name, tensor in theirs.network.state_dict().items():
        assert torch.equal(tensor, ours.network.state_dict()[name]), name
    assert ours.generate("The list", tokens=8, seed=1) == theirs.generate("The list", tokens=8, seed=1)


@pytest.mark.parametrize("lora", [{}, {"lora": 2}])
def test_a_language_model_starts_from_a_quantised_gguf_file(lora: dict[str, int], tmp_path: Path) -> None:
    path = written(tmp_path / "theirs.gguf", llama(intermediate_size=64), byte_level(), "Q8_0")
    run = train_recipe(compose(language_table(path, **STILL, **lora)), tmp_path / "run").path
    theirs, ours = firth.load(path, "cpu"), firth.load(run, "cpu")
    assert ours.recipe.model == theirs.recipe.model
    assert ours.tokenizer.to_json() == theirs.tokenizer.to_json()
    for name, tensor in theirs.network.state_dict().items():
        torch.testing.assert_close(ours.network.state_dict()[name], tensor, rtol=0, atol=1e-25)  # a step away from 0 is 1e-30
    if lora:
        return
    table = language_table(path, steps=12, evaluate_every=6)
    log = train_recipe(compose(table), tmp_path / "trained").path / "log.jsonl"
    losses = [line["valid"]["loss"] for line in map(json.loads, log.read_text().splitlines()) if "valid" in line]
    assert losses[-1] < losses[0]


def test_a_gguf_file_that_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*none\.gguf: No such file"):
        compose(language_table(tmp_path / "none.gguf"))
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(3))
    with pytest.raises(CorruptFile, match=r"bad\.gguf is truncated or damaged"):
        compose(language_table(tmp_path / "bad.gguf"))


def test_it_learns_and_resumes_without_the_folder(tmp_path: Path) -> None:
    folder = saved(tmp_path / "theirs", llama())
    recipe = compose(language_table(folder, steps=12, evaluate_every=4))
    run = train_recipe(recipe, tmp_path / "run").path
    for file in folder.iterdir():
        file.unlink()
    longer = dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, steps=14))
    train_recipe(longer, tmp_path / "run", resume=True)
    losses = [line["valid"]["loss"] for line in map(json.loads, (run / "log.jsonl").read_text().splitlines()) if "valid" in line]
    assert losses[-1] < losses[1] < losses[0]


def test_lora_trains_only_its_adapters_and_merges_them(tmp_path: Path) -> None:
    folder = saved(tmp_path / "theirs", llama())
    run = train_recipe(compose(language_table(folder, lora=2, lora_targets=["query", "down"])), tmp_path / "run").path
    theirs, ours = firth.load(folder, "cpu").network.state_dict(), firth.load(run, "cpu").network.state_dict()
    changed = {name for name in theirs if not torch.equal(theirs[name], ours[name])}
    layers = range(3)
    expected = {f"blocks.{n}.attention.qkv.weight" for n in layers} | {f"blocks.{n}.feedforward.down.weight" for n in layers}
    assert changed == expected
    assert (run / "adapter" / "adapter_config.json").is_file()


@pytest.mark.parametrize("lora", half([0, 2], 1))
def test_chat_fine_tuning_uses_the_template_of_the_folder(lora: int, tmp_path: Path) -> None:
    folder = instruct(tmp_path / "theirs")
    data = write_chats(tmp_path / "chats.jsonl")
    run = train_recipe(compose(chat_table(folder, data, lora=lora)), tmp_path / "run").path
    model = firth.load(run, "cpu")
    ids = model.format.prompt([Message("user", "name 3")])
    theirs = byte_level(begin=True)
    expected = theirs.encode("<|begin|>user\nname 3<|end|>\n<|begin|>assistant\n", add_special_tokens=False).ids
    assert ids.tolist() == expected
    assert model.format.end == theirs.token_to_id("<|end|>")
    assert isinstance(model.chat("name 3"), str)


CONTRADICTIONS: dict[str, tuple[Table, str]] = {
    "width": ({"model": {"width": 64}}, r"model\.width is 32 there and 64 here"),
    "kind": ({"model": {"kind": "lstm", "width": 32}}, r'model\.kind is "transformer" there and "lstm" here'),
    "tokenizer": ({"tokenizer": {"kind": "bpe", "vocab": 300}}, "has another vocabulary: tokenizer.kind is 'imported' there"),
    "context": ({"training": {"context": 500}}, r"training\.context = 500 needs 500 positions, but model\.context = 128"),
}


@pytest.mark.parametrize("name", list(CONTRADICTIONS))
def test_a_recipe_that_contradicts_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "theirs", llama())
    changes, message = CONTRADICTIONS[name]
    table = language_table(folder)
    for part, settings in changes.items():
        table[part] = table.get(part, {}) | settings
    with pytest.raises(ConfigError, match=message):
        train_recipe(compose(table), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_without_a_chat_template_asks_for_one(tmp_path: Path) -> None:
    folder = saved(tmp_path / "theirs", llama())
    with pytest.raises(ConfigError, match=r"no chat template of its own\. Set objective\.template"):
        train_recipe(compose(chat_table(folder, write_chats(tmp_path / "chats.jsonl"))), tmp_path / "run")
