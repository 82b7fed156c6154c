"""Checkpoints: damage is found and named, the one before is used, the right weights stand for the run."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from shares import half, third
from tiny_runs import assert_identical, outcome, steps_saved, stopping_at, tiny, undisturbed, watching
from torch import Tensor

from firth import files
from firth.api import load, train_recipe
from firth.api.training import train_into
from firth.errors import Interrupted, RunError
from firth.training import checkpoint
from firth.training.folder import FORMAT, RunFolder
from firth.training.loop import Training
from firth.training.trainer import StepReport

RECIPE = tiny(dropout=0.2, steps=8, checkpoint_every=2, evaluate_every=2)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return undisturbed(RECIPE, tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture(scope="module")
def _stopped(expected: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.raises(Interrupted):
        train_recipe(RECIPE, folder, watcher=stopping_at(5))
    assert steps_saved(folder) == [4, 5]
    return folder


@pytest.fixture
def run(_stopped: Path, tmp_path: Path) -> Path:
    """A run stopped at step 5, with checkpoints of steps 4 and 5."""
    return Path(shutil.copytree(_stopped, tmp_path / "run"))


def saved(run: Path, step: int) -> Path:
    return run / "checkpoints" / f"step-{step:08d}.safetensors"


def truncated(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def flipped(at: float) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[int(at * (len(content) - 1))] ^= 0b100
        path.write_bytes(content)

    damage.__name__ = f"flipped at {at}"
    return damage


def of_format(number: int) -> Callable[[Path], None]:
    def rewrite(path: Path) -> None:
        tensors, metadata = files.load_tensors(path)
        files.save_tensors(path, tensors, metadata | {"format": str(number)})

    return rewrite


DAMAGES = [truncated, emptied, *(flipped(at) for at in (0.0, 0.01, 0.2, 0.6, 1.0))]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_it_used(
    damage: Callable[[Path], None], run: Path, expected: dict[str, Any]
) -> None:
    damage(saved(run, 5))
    notices: list[str] = []
    first: list[int] = []
    watcher = watching(lambda training, seen: first.append(seen.step), notices.append)
    train_recipe(RECIPE, run, resume=True, watcher=watcher)
    assert len(notices) == 1
    named = re.escape(str(saved(run, 5)))
    assert re.fullmatch(rf"{named} is .*damaged.*; using the previous checkpoint", notices[0])
    assert first[0] == 5
    assert_identical(outcome(run), expected)


def test_when_every_checkpoint_is_damaged_the_run_is_refused(run: Path) -> None:
    truncated(saved(run, 4))
    flipped(0.9)(saved(run, 5))
    notices: list[str] = []
    with pytest.raises(RunError, match=r"all 2 checkpoints in .*checkpoints are damaged; remove them to train from the start"):
        train_recipe(RECIPE, run, resume=True, watcher=watching(notice=notices.append))
    assert steps_saved(run) == [4, 5]
    assert not notices  # none is used in the place of another: one line is enough


@pytest.mark.parametrize(
    "change",
    third([
        {"step": "5"}, {"step": -1}, {"step": 10**30}, {"position": None}, {"recent": 3}, {"recent": ["a"]}, {"best": "low"},
        {"since_best": True}, {"unknown": 1},
    ]),
    ids=str,
)  # fmt: skip
def test_a_checkpoint_whose_state_is_no_state_counts_as_damaged(
    change: dict[str, Any], run: Path, expected: dict[str, Any]
) -> None:
    tensors, metadata = files.load_tensors(saved(run, 5))
    state = json.loads(metadata["state"]) | change
    files.save_tensors(saved(run, 5), tensors, metadata | {"state": json.dumps(state)})
    notices: list[str] = []
    train_recipe(RECIPE, run, resume=True, watcher=watching(notice=notices.append))
    assert len(notices) == 1
    assert re.search(r"step-00000005\.safetensors is damaged: .* in its state|impossible numbers", notices[0])
    assert_identical(outcome(run), expected)


def test_when_the_damaged_ones_are_removed_the_run_starts_again(run: Path, expected: dict[str, Any]) -> None:
    shutil.rmtree(run / "checkpoints")
    train_recipe(RECIPE, run, resume=True)
    assert_identical(outcome(run), expected)


def test_a_damaged_checkpoint_never_takes_the_place_of_a_good_one(run: Path, expected: dict[str, Any]) -> None:
    """The one of step 9 claims to be the newest; with keep = 1 it would be the only one kept."""
    saved(run, 9).write_bytes(saved(run, 5).read_bytes()[:-9])
    one = tiny(dropout=0.2, steps=8, checkpoint_every=2, evaluate_every=2, keep=1)
    with pytest.raises(Interrupted, match="stopped at step 7 "):
        train_recipe(one, run, resume=True, watcher=stopping_at(7))
    assert steps_saved(run) == [7]
    train_recipe(one, run, resume=True)
    assert_identical(outcome(run)["checkpoint"], expected["checkpoint"])


def test_a_checkpoint_of_a_newer_format_asks_for_an_upgrade(run: Path) -> None:
    of_format(FORMAT + 1)(saved(run, 5))
    with pytest.raises(RunError, match=rf"step-00000005\.safetensors has format {FORMAT + 1}.*up to {FORMAT}; upgrade firth"):
        train_recipe(RECIPE, run, resume=True)


@pytest.mark.parametrize("use", [lambda run: train_recipe(RECIPE, run, resume=True), load], ids=["resume", "load"])
def test_a_run_of_a_newer_format_asks_for_an_upgrade(use: Callable[[Path], object], run: Path) -> None:
    (run / "format").write_text(f"{FORMAT + 1}\n")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match=rf"run format {FORMAT + 1}; this firth reads up to {FORMAT}; upgrade firth"):
        use(run)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("text", ["", "one", "-1", "\x00\xff"])
def test_a_format_file_that_holds_no_number_is_no_run_of_firths(text: str, run: Path) -> None:
    (run / "format").write_text(text)
    with pytest.raises(RunError, match="instead of a version number"):
        load(run)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_weights_are_named_and_those_of_the_newest_checkpoint_loaded(damage: Callable[[Path], None], run: Path) -> None:
    damage(run / "model.safetensors")
    with pytest.warns(UserWarning, match=r"model\.safetensors is .*damaged.*; using the newest checkpoint"):
        model = load(run, "cpu")
    assert_identical(dict(model.network.state_dict()), weights_of(saved(run, 5)))


def test_with_weights_and_newest_checkpoint_damaged_the_one_before_is_loaded(run: Path) -> None:
    truncated(run / "model.safetensors")
    truncated(saved(run, 5))
    with pytest.warns(UserWarning, match="damaged") as warned:
        model = load(run, "cpu")
    assert ["model.safetensors" in str(w.message) for w in warned] == [True, False]
    assert "step-00000005" in str(warned[1].message)
    assert_identical(dict(model.network.state_dict()), weights_of(saved(run, 4)))


def test_with_everything_damaged_loading_is_refused(run: Path) -> None:
    for path in run.rglob("*.safetensors"):
        truncated(path)
    with pytest.raises(RunError, match=r"all weights in .* are damaged"):  # and no note before it
        load(run, "cpu")


def test_weights_of_a_newer_format_ask_for_an_upgrade_instead_of_being_passed_over(run: Path) -> None:
    of_format(FORMAT + 1)(run / "model.safetensors")
    with pytest.raises(RunError, match=rf"model\.safetensors has format {FORMAT + 1}.*upgrade firth"):
        load(run, "cpu")


def test_a_run_without_weights_says_how_to_make_them(run: Path) -> None:
    for path in run.rglob("*.safetensors"):
        path.unlink()
    with pytest.raises(RunError, match=r"has no trained weights yet.*resume=True"):
        load(run, "cpu")


@pytest.mark.parametrize(
    ("keep", "left"),
    half(itertools.starmap(pytest.param, [(1, [10]), (2, [9, 10]), (4, [7, 8, 9, 10]), (99, list(range(1, 11)))])),
)
def test_keep_keeps_that_many(keep: int, left: list[int], tmp_path: Path) -> None:
    train_recipe(tiny(steps=10, checkpoint_every=1, keep=keep), tmp_path / "run")
    assert steps_saved(tmp_path / "run") == left


def test_a_checkpoint_holds_all_that_the_issue_lists(run: Path) -> None:
    tensors, metadata = files.load_tensors(saved(run, 5))
    parts = {name.partition("/")[0] for name in tensors}
    assert parts == {"model", "optimizer", "random"}
    state = json.loads(metadata["state"])
    assert (state["step"], state["position"], state["tokens"]) == (5, 5, 5 * 2 * 6)
    assert metadata["format"] == str(FORMAT)
    assert metadata["recipe"] == (run / "recipe.toml").read_text()
    assert metadata["tokenizer"] == (run / "tokenizer.json").read_text()


@pytest.mark.parametrize(("kind", "parts"), [("gru", {"h"}), ("lstm", {"h", "c"})])
def test_a_checkpoint_of_a_carrying_run_holds_the_carried_state(kind: str, parts: set[str], tmp_path: Path) -> None:
    train_recipe(tiny(kind, carry=True), tmp_path / "run")
    tensors, _ = files.load_tensors(saved(tmp_path / "run", 6))
    assert {name.removeprefix("carried/") for name in tensors if name.startswith("carried/")} == parts


# --- which weights stand for the run


def judged(losses: list[float], folder: Path, **settings: Any) -> tuple[dict[int, dict[str, Tensor]], RunFolder]:
    """A run with an evaluation after each step that gives `losses`; the weights after each step."""
    from firth.api import training as api

    after: dict[int, dict[str, Tensor]] = {}

    def keep_weights(training: Training, seen: StepReport) -> None:
        after[seen.step] = {name: tensor.clone() for name, tensor in training.model.state_dict().items()}

    def metrics(training: Training, *_: Any) -> dict[str, Any]:
        return {"loss": losses[training.step - 1], "bits_per_character": None, "perplexity": 1.0}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "_metrics", metrics)
        recipe = tiny(steps=len(losses), evaluate_every=1, checkpoint_every=2, **settings)
        return after, train_into(recipe, folder, resume=True, watcher=watching(keep_weights))


def weights_of(path: Path) -> dict[str, Tensor]:
    tensors, _ = files.load_tensors(path)
    return {name.removeprefix("model/"): tensor for name, tensor in tensors.items() if name.startswith("model/")}


@pytest.mark.parametrize(("losses", "best"), [([3.0, 2.0, 2.5, 2.4], 2), ([3.0, 2.0, 2.0, 1.0], 4), ([1.0, 1.0, 1.0], 1)])
def test_the_weights_of_a_run_are_those_of_its_best_evaluation_the_first_of_equals(
    losses: list[float], best: int, tmp_path: Path
) -> None:
    after, folder = judged(losses, tmp_path / "run")
    tensors, metadata = files.load_tensors(folder.model)
    assert metadata["step"] == str(best)
    assert_identical(tensors, after[best])
    assert_identical(weights_of(checkpoint.checkpoints(folder)[0]), after[len(losses)])
    assert_identical(dict(load(folder.path, "cpu").network.state_dict()), after[best])


def test_without_held_out_text_the_newest_weights_stand_for_the_run(tmp_path: Path) -> None:
    folder = train_into(tiny(valid=0.0, checkpoint_every=4), tmp_path / "run")
    tensors, metadata = files.load_tensors(folder.model)
    assert metadata["step"] == "6"
    assert_identical(tensors, weights_of(saved(folder.path, 6)))


def test_training_stops_when_patience_is_exhausted_and_a_resume_does_not_go_on(tmp_path: Path) -> None:
    losses = [3.0, 2.0, 2.1, 1.9, 2.0, 2.0, 2.0, 0.1]
    after, folder = judged(losses, tmp_path / "run", patience=3)
    assert sorted(after) == [1, 2, 3, 4, 5, 6, 7]
    assert steps_saved(folder.path)[-1] == 7
    stopped = outcome(folder.path)
    assert stopped["model"][1]["step"] == "4"
    again, _ = judged(losses, tmp_path / "run", patience=3)
    assert again == {}
    assert_identical(outcome(folder.path), stopped)
    onward, _ = judged(losses, tmp_path / "run", patience=4)
    assert sorted(onward) == [8]
    assert outcome(folder.path)["model"][1]["step"] == "8"


def test_patience_is_counted_across_a_stop(tmp_path: Path) -> None:
    from firth.api import training as api

    losses = [1.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    recipe = tiny(steps=6, evaluate_every=1, patience=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "_metrics", lambda training, *_: {"loss": losses[training.step - 1]})
        with pytest.raises(Interrupted):
            train_recipe(recipe, tmp_path / "run", watcher=stopping_at(3))
        train_recipe(recipe, tmp_path / "run", resume=True)
    assert steps_saved(tmp_path / "run")[-1] == 4


def test_weights_are_finite_tensors_of_the_model_and_nothing_else(run: Path) -> None:
    tensors, _ = files.load_tensors(run / "model.safetensors")
    assert tensors.keys() == load(run, "cpu").network.state_dict().keys()
    assert all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values())
