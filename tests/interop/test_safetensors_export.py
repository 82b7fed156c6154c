"""--format safetensors: the folder alone is enough to compute what the run computes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from translations import pair_table, write_pairs

import firth
from firth.api import compose, export_model, train_recipe
from firth.config import Table


def rebuilt(folder: Path) -> torch.nn.Module:
    config = json.loads((folder / "firth_config.json").read_text())
    vocab = config["vocab"]
    network = compose(config["recipe"]).task.network(config.get("source_vocab", vocab), vocab)
    network.load_state_dict(load_file(folder / "model.safetensors"))
    return network.eval()


@pytest.mark.parametrize("kind", ["char_run", "bpe_run"])
def test_a_network_built_from_the_folder_has_the_runs_logits(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    run = request.getfixturevalue(kind)
    folder = export_model(run, tmp_path / "out", format="safetensors", license="mit")
    ours, theirs = firth.load(run, "cpu").network, rebuilt(folder)
    token_BT = torch.randint(ours.vocab, (2, 9), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        assert torch.equal(ours(token_BT)[0], theirs(token_BT)[0])
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlicense: mit\nlibrary_name: firth\n")
    assert "load_file" in card
    assert "transformers" not in card


def test_a_translator_has_both_tokenizers(tmp_path: Path) -> None:
    table: Table = pair_table(write_pairs(tmp_path / "pairs.tsv"), steps=1)
    run = train_recipe(compose(table), tmp_path / "run").path
    folder = export_model(run, tmp_path / "out", format="safetensors")
    names = {path.name for path in folder.iterdir()}
    assert names >= {"model.safetensors", "firth_config.json", "tokenizer.json", "README.md"}
    both = firth.load(run, "cpu")
    assert ("source_tokenizer.json" in names) == (both.source_tokenizer is not both.tokenizer)
    rebuilt(folder)
