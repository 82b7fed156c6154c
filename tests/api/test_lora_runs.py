"""training.lora: what trains and what does not, for every task; checkpoints, resuming, and the run that comes out of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from chat_lines import chat_table, write_chats
from questions import answer_table, write_questions
from reviews import classifier_table, write
from shell import Firth
from tags import tagger_table
from tags import write as write_tags
from test_init_from_run import TRANSFORMER, text_table
from tiny_runs import assert_identical, outcome, stopping_at, undisturbed, watching
from translations import pair_table, write_pairs

from firth import files
from firth.api import compose, load, train_recipe
from firth.config import Table
from firth.errors import ConfigError, Interrupted
from firth.models.peft_format import WEIGHTS, load_adapter
from firth.training import checkpoint
from firth.training.folder import RunFolder
from firth.training.loop import Training

LORA = {"lora": 2, "lora_alpha": 4.0, "steps": 12, "rate": 0.05, "evaluate_every": 4, "checkpoint_every": 5}


def adapting(table: Table, init: Path, **training: Any) -> Table:
    """The recipe with adapters on `init`, whose tokenizer it has to take."""
    table = {name: part for name, part in table.items() if name != "tokenizer"}
    return table | {"training": table["training"] | LORA | {"init": str(init)} | training}


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = text_table("next-token", "language", TRANSFORMER, steps=20)
    return train_recipe(compose(table), tmp_path_factory.mktemp("language") / "run").path


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = text_table("masked", "encoder", TRANSFORMER)
    return train_recipe(compose(table), tmp_path_factory.mktemp("masked") / "run").path


def lora_table(init: Path, **training: Any) -> Table:
    return adapting(text_table("next-token", "language", TRANSFORMER), init, **training)


def reviewing(folder: Path, init: Path, **training: Any) -> Table:
    table = classifier_table(write(folder / "reviews.csv"))
    return adapting(table | {"model": {"family": "encoder"} | TRANSFORMER}, init, **training)


def trained(table: Table, out: Path) -> tuple[Training, list[str]]:
    held: list[Training] = []
    said: list[str] = []
    watcher = watching(lambda training, seen: held.append(training), said.append)
    train_recipe(compose(table), out, watcher=watcher)
    return held[-1], said


def test_only_the_adapters_move(language: Path, tmp_path: Path) -> None:
    training, said = trained(lora_table(language), tmp_path / "run")
    before, after = load(language, "cpu").network.state_dict(), training.model.state_dict()
    for name, tensor in before.items():
        assert torch.equal(after[name], tensor), name
    moved = [name for name in after if name not in before]
    assert len(moved) == 2 * 2 * 2, "A and B of query and value, in two layers"
    assert all(after[name].abs().max() > 0 for name in moved)
    # rank 2, width 8: A has 2 × 8 numbers and B 8 × 2
    assert said[1].startswith("128 parameters are trained: LoRA adapters of rank 2; the ")
    assert len(training.optimizer.state) == 8


def test_the_saved_weights_are_the_merged_ones(language: Path, tmp_path: Path) -> None:
    training, _ = trained(lora_table(language), tmp_path / "run")
    merged, token_BT = load(tmp_path / "run", "cpu").network, torch.arange(12).view(2, 6)
    before = load(language, "cpu").network
    with torch.no_grad():
        unmerged = training.model.double().eval()(token_BT)[0]
        torch.testing.assert_close(merged.double()(token_BT)[0], unmerged, rtol=0, atol=1e-5)  # merged in float32
        assert (before.double()(token_BT)[0] - unmerged).abs().max() > 0.01
    load_adapter(before, tmp_path / "run" / "adapter")
    with torch.no_grad():
        torch.testing.assert_close(before(token_BT)[0], unmerged, rtol=0, atol=1e-12)


def test_checkpoints_hold_only_what_is_trained(language: Path, tmp_path: Path) -> None:
    trained(lora_table(language), tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    tensors, _ = files.load_tensors(checkpoint.checkpoints(folder)[0])
    weights = [name for name in tensors if name.startswith(("model/", "optimizer/"))]
    assert len(weights) == 8 * 4, "each with AdamW's step and two means"
    assert all(".lora." in name for name in weights)
    assert files.load_tensors(folder.base)[0].keys() == files.load_tensors(folder.model)[0].keys()


@pytest.mark.parametrize("average", [pytest.param(0.0, marks=pytest.mark.long), 0.9])
def test_it_is_resumed_to_the_bit_without_the_run_it_began_as(average: float, masked: Path, tmp_path: Path) -> None:
    init = Path(shutil.copytree(masked, tmp_path / "init"))
    recipe = compose(reviewing(tmp_path, init, lora_dropout=0.2, average=average))
    expected = undisturbed(recipe, tmp_path / "whole")
    for step in (3, 7):
        with pytest.raises(Interrupted):
            train_recipe(recipe, tmp_path / "run", resume=True, watcher=stopping_at(step))
        shutil.rmtree(init, ignore_errors=True)
    train_recipe(recipe, tmp_path / "run", resume=True)
    assert_identical(outcome(tmp_path / "run"), expected)
    adapters = [files.load_tensors(tmp_path / one / "adapter" / WEIGHTS) for one in ("whole", "run")]
    assert_identical(*adapters)


def test_damaged_weights_are_merged_again_from_a_checkpoint(language: Path, tmp_path: Path) -> None:
    trained(lora_table(language, evaluate_every=0), tmp_path / "run")
    expected = load(tmp_path / "run", "cpu").network.state_dict()
    (tmp_path / "run" / "model.safetensors").write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="using the newest checkpoint"):
        merged = load(tmp_path / "run", "cpu").network.state_dict()
    assert_identical(dict(merged), dict(expected))


def test_a_run_that_was_killed_before_its_first_checkpoint_still_begins_as_the_other(language: Path, tmp_path: Path) -> None:
    for name, table in (("lora", lora_table(language)), ("full", lora_table(language, lora=0))):
        recipe = compose(table)
        expected = undisturbed(recipe, tmp_path / name / "whole")
        with pytest.raises(KeyboardInterrupt):
            train_recipe(recipe, tmp_path / name / "run", watcher=watching(_killed))
        assert not checkpoint.checkpoints(RunFolder(tmp_path / name / "run"))
        train_recipe(recipe, tmp_path / name / "run", resume=True)
        resumed = outcome(tmp_path / name / "run")
        assert_identical(resumed["checkpoint"], expected["checkpoint"])


def _killed(training: Training, seen: object) -> None:
    raise KeyboardInterrupt


def test_a_new_readout_trains_with_the_adapters(masked: Path, tmp_path: Path) -> None:
    training, said = trained(reviewing(tmp_path, masked, steps=80, lora=4), tmp_path / "run")
    assert "and 2 new weights" in said[1]
    names = {name for name, one in training.model.named_parameters() if one.requires_grad and ".lora." not in name}
    assert names == {"output.weight", "output.bias"}
    model = load(tmp_path / "run", "cpu")
    assert [text.label for text in model.classify(["a great film", "a dull film"])] == ["good", "bad"]
    told = json.loads((tmp_path / "run" / "adapter" / "adapter_config.json").read_text())
    assert told["modules_to_save"] == ["output"]


@pytest.mark.long
def test_other_tasks_train_adapters_too(masked: Path, tmp_path: Path) -> None:
    encoder = {"family": "encoder"} | TRANSFORMER
    pairs = pair_table(write_pairs(tmp_path / "pairs.tsv"), "transformer", steps=2, evaluate_every=0)
    chats = chat_table(write_chats(tmp_path / "chats.jsonl"), steps=2, evaluate_every=0)
    short = {"steps": 2, "evaluate_every": 0, "checkpoint_every": 0}
    tables = {
        "tags": adapting(tagger_table(write_tags(tmp_path / "tags.conll")) | {"model": encoder}, masked, **short),
    }
    answers = answer_table(write_questions(tmp_path / "questions.jsonl"), steps=2, evaluate_every=0)
    for name, first in (("pairs", pairs), ("chats", chats), ("answers", answers)):
        init = train_recipe(compose(first), tmp_path / f"{name}-init").path
        tables[name] = adapting(first, init, lora_targets=["query", "key", "value", "output", "up", "down"], **short)
    for name, table in tables.items():
        training, _ = trained(table, tmp_path / name)
        frozen = [one for one in training.model.parameters() if not one.requires_grad]
        assert sum(one.numel() for one in frozen) > 500, name
        updated = {id(one) for group in training.optimizer.param_groups for one in group["params"]}
        assert not updated & {id(one) for one in frozen}, name
        load(tmp_path / name, "cpu").evaluate()


def test_describe_says_how_many_parameters_train(firth: Firth, masked: Path, tmp_path: Path) -> None:
    training, _ = trained(reviewing(tmp_path, masked, steps=1), tmp_path / "run")
    by_hand = sum(one.numel() for one in training.model.parameters() if one.requires_grad)
    assert by_hand == 2 * 2 * 2 * (8 + 8) + 8 * 2 + 2, "two layers, query and value, A and B of rank 2; the readout"
    for name in (tmp_path / "run", tmp_path / "run" / "recipe.toml"):
        assert json.loads(firth("describe", name, "--json").out)["trained"] == by_hand
    assert f"trained             {by_hand}: LoRA adapters and new layers" in firth("describe", tmp_path / "run").out
    assert json.loads(firth("describe", masked, "--json").out)["trained"] is None


def test_what_does_not_fit_is_refused(language: Path, tmp_path: Path) -> None:
    for changes, message in (
        ({"lora": -1}, r"training\.lora is -1; expected 0 or more"),
        ({"lora_alpha": 0.0}, r"training\.lora_alpha is 0\.0; expected more than 0"),
        ({"lora_dropout": 1.0}, r"training\.lora_dropout is 1\.0"),
        ({"lora_targets": []}, r"training\.lora_targets is \[\]; expected at least one projection"),
        ({"lora_targets": ["queries"]}, r"lora_targets"),
    ):
        with pytest.raises(ConfigError, match=message):
            compose(lora_table(language, **changes))
    table = lora_table(language)
    del table["training"]["init"]
    with pytest.raises(ConfigError, match=r"adapters need a trained model to adapt\. Set training\.init to its run\."):
        compose(table)
    recurrent = lora_table(language) | {"model": {"kind": "gru", "width": 8}}
    with pytest.raises(ConfigError, match=r'training\.lora is 2, which only applies to Transformers; model\.kind is "gru"'):
        compose(recurrent)
    gelu = TRANSFORMER | {"activation": "gelu"}
    init = train_recipe(compose(text_table("next-token", "language", gelu, steps=1)), tmp_path / "gelu").path
    with pytest.raises(ConfigError, match=r'lora_targets has "gate", but no layer of this model has such a matrix'):
        train_recipe(compose(adapting(text_table("next-token", "language", gelu), init, lora_targets=["gate"])), tmp_path / "run")
    assert not (tmp_path / "run").exists()
