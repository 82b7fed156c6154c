"""A new family of public models is one `Family` in FAMILIES: read, written, loaded and listed without another change."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from runs import recipe_table

import firth
from firth import interop
from firth.api import compose, export_model, train_recipe
from firth.errors import ConfigError
from firth.interop.families.gpt2 import GPT2
from firth.interop.files.config_map import always, size
from firth.interop.files.weight_map import Weight, WeightMap

TOY = dataclasses.replace(
    GPT2,
    title="Toy",
    model_type="toy",
    architecture="ToyForCausalLM",
    weights=WeightMap(
        (
            Weight("embedding.weight", "words"),
            Weight("blocks.{n}.attention.qkv.weight", "{n}.attention.in"),
            Weight("blocks.{n}.attention.out.weight", "{n}.attention.out"),
            Weight("blocks.{n}.feedforward.up.weight", "{n}.up"),
            Weight("blocks.{n}.feedforward.down.weight", "{n}.down"),
            *(Weight(f"blocks.{{n}}.{name}.weight", f"{{n}}.{name}") for name in ("attention_norm", "feedforward_norm")),
            Weight("norm.weight", "norm"),
        )
    ),
    config=(
        *(size(ours, theirs) for ours, theirs in (("width", "size"), ("depth", "layers"), ("context", "length"))),
        always("attention.heads", 2),
        always("position.kind", "none"),
        always("feedforward.activation", "relu"),
    ),
)


def test_a_new_family_is_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = recipe_table("bpe", model="transformer", steps=2)
    table["model"] |= {"position": {"kind": "none"}, "feedforward": {"activation": "relu"}}
    run = train_recipe(compose(table), tmp_path / "run").path
    with pytest.raises(ConfigError, match="has no counterpart"):
        export_model(run, tmp_path / "refused")
    monkeypatch.setattr(interop, "FAMILIES", (*interop.FAMILIES, TOY))
    folder = export_model(run, tmp_path / "toy")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert (config["model_type"], config["architectures"], config["size"]) == ("toy", ["ToyForCausalLM"], 32)
    ours, theirs = firth.load(run, "cpu"), firth.load(folder, "cpu")
    for name, tensor in ours.network.state_dict().items():
        assert torch.equal(theirs.network.state_dict()[name], tensor), name
    assert theirs.generate("the", tokens=8, seed=1) == ours.generate("the", tokens=8, seed=1)
