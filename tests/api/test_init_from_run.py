"""training.init: what a run begins with that another learned, what it refuses, and that it then stands by itself."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from reviews import classifier_table, write
from shares import half
from tiny_runs import assert_identical, outcome, stopping_at, undisturbed, watching
from translations import pair_table, write_pairs

from firth.api import compose, load, train_recipe
from firth.config import Table, to_toml
from firth.errors import ConfigError, Interrupted, RunError
from firth.models import Network

TEXT = "a great film\nwhat a lovely story\na dull film\nwhat an awful story\ngreat fun\n" * 20
STILL = {"steps": 1, "rate": 1e-30, "schedule": "constant"}  # a run whose weights stay what they begin as
TRANSFORMER: Table = {"kind": "transformer", "width": 8, "depth": 2, "heads": 2}


def text_table(objective: str, family: str, model: Table, **training: Any) -> Table:
    settings = {"steps": 3, "batch": 2, "context": 8, "device": "cpu", "rate": 0.01}
    return {
        "data": {"text": TEXT, "valid": 0.2},
        "tokenizer": {"kind": "bpe", "vocab": 280},
        "model": {"family": family} | model,
        "objective": {"kind": objective},
        "training": settings | training,
    }


def fine_tuned(folder: Path, init: Path, model: Table = TRANSFORMER, family: str = "encoder", **training: Any) -> Table:
    """A classifier that begins as another run, and has no [tokenizer] of its own."""
    table = classifier_table(write(folder / "reviews.csv"), **(STILL | training))
    del table["tokenizer"]
    return table | {"model": {"family": family} | model, "training": table["training"] | {"init": str(init)}}


@pytest.fixture(scope="module")
def mlm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mlm")
    return train_recipe(compose(text_table("masked", "encoder", TRANSFORMER)), folder / "mlm").path


def run(table: Table, out: Path) -> tuple[Network, list[str]]:
    said: list[str] = []
    path = train_recipe(compose(table), out, watcher=watching(notice=said.append)).path
    return load(path, "cpu").network, said


def test_a_classifier_begins_as_the_encoder_of_a_masked_model(mlm: Path, tmp_path: Path) -> None:
    network, said = run(fine_tuned(tmp_path, mlm), tmp_path / "run")
    before, after = load(mlm, "cpu").network.state_dict(), network.state_dict()
    taken = [name for name in after if name.startswith("encoder.")]
    assert len(taken) == 14
    for name in taken:
        rows = len(after[name])
        assert torch.equal(after[name], before[name][:rows]), name
    assert len(before["encoder.embedding.weight"]) == len(after["encoder.embedding.weight"]) + 1, "<mask> is left out"
    assert said == [f"14 of 16 weights initialised from {mlm}; new: output.weight, output.bias"]


def test_a_fine_tuned_run_remembers_labels_and_tokenizer(mlm: Path, tmp_path: Path) -> None:
    path = train_recipe(compose(fine_tuned(tmp_path, mlm, steps=60, rate=0.01)), tmp_path / "run").path
    moved = Path(shutil.copytree(path, tmp_path / "elsewhere"))
    model, before = load(moved, "cpu"), load(mlm, "cpu")
    assert model.tokenizer.to_json() == before.tokenizer.to_json()
    assert model.recipe.tokenizer == before.recipe.tokenizer
    assert model.labels == ("bad", "good")
    assert model.classify(["lovely"])[0].label == "good"
    assert model.recipe.training.init == str(mlm.absolute())


def test_a_relative_path_means_the_same_later(mlm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(mlm.parent)
    recipe = compose(fine_tuned(tmp_path, Path(mlm.name))).resolved()
    assert recipe.training.init == str(mlm)


def test_it_is_resumed_to_the_bit_without_the_run_it_began_as(mlm: Path, tmp_path: Path) -> None:
    init = Path(shutil.copytree(mlm, tmp_path / "init"))
    recipe = compose(fine_tuned(tmp_path, init, steps=10, rate=0.01, evaluate_every=4, checkpoint_every=3))
    expected = undisturbed(recipe, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train_recipe(recipe, tmp_path / "run", watcher=stopping_at(5))
    shutil.rmtree(init)
    train_recipe(recipe, tmp_path / "run", resume=True)
    assert_identical(outcome(tmp_path / "run"), expected)


PAIRS: dict[str, tuple[Table, Table, int, tuple[str, ...]]] = {
    # what was learned, what begins as it, how many weights it takes, and which are new
    "masked, learned places": (
        text_table("masked", "encoder", TRANSFORMER | {"position": "learned", "context": 16}),
        TRANSFORMER | {"position": "learned", "context": 16},
        15,
        ("output.weight", "output.bias"),
    ),
    "masked, new segments": (
        text_table("masked", "encoder", TRANSFORMER),
        TRANSFORMER | {"segments": 2},
        14,
        ("encoder.segment.weight", "output.weight", "output.bias"),
    ),
    "masked, bidirectional lstm": (
        text_table("masked", "encoder", {"kind": "lstm", "width": 6, "embedding": 4}),
        {"kind": "lstm", "width": 6, "embedding": 4},
        9,
        ("output.weight", "output.bias"),
    ),
    "a decoder": (text_table("next-token", "language", TRANSFORMER), TRANSFORMER, 14, ("output.weight", "output.bias")),
    "a recurrent decoder": (
        text_table("next-token", "language", {"kind": "gru", "width": 8}),
        {"kind": "gru", "width": 8},
        5,
        ("output.weight", "output.bias"),
    ),
}


@pytest.mark.parametrize("name", half(PAIRS))
def test_other_readers_begin_as_what_they_were(name: str, tmp_path: Path) -> None:
    learned, model, count, new = PAIRS[name]
    init = train_recipe(compose(learned), tmp_path / "init").path
    family = learned["model"]["family"]
    network, said = run(fine_tuned(tmp_path, init, model, family), tmp_path / "run")
    assert said == [f"{count} of {count + len(new)} weights initialised from {init}; new: {', '.join(new)}"]
    before = load(init, "cpu").network.state_dict()
    for other, weight in before.items():
        prefix = "encoder.decoder." if family == "language" else ""
        mine = network.state_dict().get(prefix + other)
        if mine is not None:
            assert torch.equal(mine, weight[: len(mine)]), other


def test_the_same_objective_begins_as_the_whole_network(mlm: Path, tmp_path: Path) -> None:
    table = text_table("masked", "encoder", TRANSFORMER, init=str(mlm), **STILL)
    network, said = run(table, tmp_path / "run")
    assert said == [f"18 of 18 weights initialised from {mlm}"]
    before = load(mlm, "cpu").network.state_dict()
    assert all(torch.equal(weight, before[name]) for name, weight in network.state_dict().items()), "<mask> and all"


def test_other_labels_are_learned_anew(tmp_path: Path) -> None:
    first = train_recipe(compose(classifier_table(write(tmp_path / "a.csv"), steps=2)), tmp_path / "a").path
    table = classifier_table(write(tmp_path / "b.csv", [("great", "yes"), ("dull", "no")] * 10), **STILL)
    _, said = run(table | {"training": table["training"] | {"init": str(first)}}, tmp_path / "b")
    assert said == [f"1 of 3 weights initialised from {first}; new: output.weight, output.bias"]
    same = classifier_table(tmp_path / "a.csv", **STILL)
    _, said = run(same | {"training": same["training"] | {"init": str(first)}}, tmp_path / "c")
    assert said == [f"3 of 3 weights initialised from {first}"]


def test_translations_begin_as_a_run_of_spans_without_its_sentinels(tmp_path: Path) -> None:
    model = TRANSFORMER | {"shared": True, "tied": False, "context": 25}
    learned = text_table("span-corruption", "seq2seq", model, context=24) | {"tokenizer": {"kind": "word"}}
    learned["data"] = {"text": "one two three 1 2 3\n" * 50}
    init = train_recipe(compose(learned), tmp_path / "init").path
    table = pair_table(write_pairs(tmp_path / "pairs.tsv"), "transformer", init=str(init), **STILL)
    table |= {"model": {"family": "seq2seq"} | model, "tokenizer": {"joint": True}}
    network, said = run(table, tmp_path / "run")
    assert len(said) == 1
    assert "new" not in said[0]
    before, model_ = load(init, "cpu"), load(tmp_path / "run", "cpu")
    vocab = before.tokenizer.vocab
    assert model_.tokenizer.to_json() == before.tokenizer.to_json()
    assert model_.recipe.tokenizer.joint
    for name in ("embedding.weight", "output.weight"):
        assert torch.equal(network.state_dict()[name], before.network.state_dict()[name][:vocab]), name
    assert len(before.network.state_dict()["embedding.weight"]) > vocab


def test_an_encoder_of_pairs_begins_as_a_masked_one_with_its_embedding(mlm: Path, tmp_path: Path) -> None:
    table = text_table("span-corruption", "seq2seq", TRANSFORMER | {"shared": True}, init=str(mlm), **STILL)
    network, said = run(table, tmp_path / "run")
    own, before = network.state_dict(), load(mlm, "cpu").network.state_dict()
    vocab = load(mlm).tokenizer.vocab
    assert torch.equal(own["embedding.weight"][:vocab], before["encoder.embedding.weight"][:vocab])
    assert not torch.equal(own["embedding.weight"][vocab], before["encoder.embedding.weight"][vocab]), "a sentinel is no <mask>"
    assert torch.equal(own["encoder.blocks.1.attention.out.weight"], before["encoder.stack.blocks.1.attention.out.weight"])
    assert said[0].startswith("14 of ")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"width": 16}, "model.width is 8 there and 16 here; use the same settings"),
        ({"depth": 1}, "model.depth is 2 there and 1 here"),
        ({"heads": 4}, "model.attention.heads is 2 there and 4 here"),
        ({"position": "t5"}, 'model.position.kind is "rotary" there and "t5" here'),
        ({"hidden": 40}, "model.feedforward.hidden is 32 there and 40 here"),
        (
            {"bias": True, "norm": "layer"},
            'model.norm.kind is "rms" there and "layer" here, model.bias is false there and true here',
        ),
        ({"kind": "gru"}, 'model.kind is "transformer" there and "gru" here'),
    ],
    ids=str,
)
def test_a_model_of_another_shape_is_refused_with_the_setting(model: Table, message: str, mlm: Path, tmp_path: Path) -> None:
    other = {"kind": "gru", "width": 8, "depth": 2} if model.get("kind") else TRANSFORMER | model
    with pytest.raises(ConfigError) as error:
        train_recipe(compose(fine_tuned(tmp_path, mlm, other)), tmp_path / "run")
    assert message in str(error.value)
    assert not (tmp_path / "run").exists()


def test_another_vocabulary_is_refused_and_the_same_is_not(mlm: Path, tmp_path: Path) -> None:
    table = fine_tuned(tmp_path, mlm)
    train_recipe(compose(table | {"tokenizer": {"kind": "bpe", "vocab": 280}}), tmp_path / "same")
    for other, message in (
        ({"kind": "bpe", "vocab": 300}, "tokenizer.vocab is 280 there and 300 here. Remove"),
        ({"kind": "word"}, "tokenizer.kind is 'bpe' there and 'word' here. Remove"),
    ):
        with pytest.raises(ConfigError) as error:
            train_recipe(compose(table | {"tokenizer": other}), tmp_path / "other")
        assert message in str(error.value)


def test_a_vocabulary_for_each_side_is_not_one(tmp_path: Path) -> None:
    init = train_recipe(compose(pair_table(write_pairs(tmp_path / "p.tsv"), steps=1)), tmp_path / "init").path
    table = text_table("span-corruption", "seq2seq", {"kind": "gru", "width": 24}, init=str(init))
    with pytest.raises(ConfigError, match=r"has a vocabulary per side of its sentence pairs, but this run"):
        train_recipe(compose(table | {"tokenizer": {}}), tmp_path / "run")


def test_another_recipe_is_trained_first_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("FIRTH_CACHE", str(cache))
    first = tmp_path / "first.toml"
    first.write_text(to_toml(compose(text_table("masked", "encoder", TRANSFORMER, steps=6, checkpoint_every=1))))
    table = fine_tuned(tmp_path, Path("unused"))
    table["training"]["init"] = f"recipe:{first}"
    with pytest.raises(Interrupted):
        train_recipe(compose(table), tmp_path / "a", watcher=stopping_at(3))
    assert [path.name.endswith(".unfinished") for path in (cache / "runs").iterdir()] == [True]
    _, said = run(table, tmp_path / "a")
    (kept,) = (cache / "runs").iterdir()
    assert kept.name.startswith("first-")
    assert any(f"trained first and kept as {kept}" in one for one in said)
    assert load(tmp_path / "a", "cpu").recipe.training.init == str(kept)
    stamp = (kept / "model.safetensors").stat().st_mtime_ns
    _, said = run(table, tmp_path / "b")
    assert not any("trained first" in one for one in said)
    assert (kept / "model.safetensors").stat().st_mtime_ns == stamp
    shutil.rmtree(kept)
    train_recipe(compose(table | {"training": table["training"] | {"steps": 2}}), tmp_path / "b", resume=True)
    assert not kept.exists(), "a run that is resumed has its weights"


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"training\.init = .* does not exist; expected a run, or the folder of a public model"):
        train_recipe(compose(fine_tuned(tmp_path, tmp_path / "absent")), tmp_path / "run")
    with pytest.raises(ConfigError, match=r"both initialise the embedding\. Remove one\."):
        compose(fine_tuned(tmp_path, tmp_path, {"kind": "gru", "vectors": "v.firth"}))


def test_it_is_not_resumed_as_if_begun_otherwise(mlm: Path, tmp_path: Path) -> None:
    table = fine_tuned(tmp_path, mlm)
    train_recipe(compose(table), tmp_path / "run")
    table["training"] |= {"steps": 2}
    del table["training"]["init"]
    with pytest.raises(ConfigError, match=r"the run was started with (tokenizer|training)\."):
        train_recipe(compose(table), tmp_path / "run", resume=True)
