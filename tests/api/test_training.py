"""train_recipe(): what may be resumed, what starts, and what is refused before anything is touched."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import TEXT, assert_identical, assert_no_temporaries, contents, outcome, steps_saved, tiny, undisturbed, watching

from firth.api import Recipe, train_recipe
from firth.api.recipe import read_run_recipe
from firth.errors import ConfigError, DataError, RunError
from firth.text.config import RunningTextConfig, TokenizerConfig
from firth.training.folder import RunFolder


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def on_file(path: Path, text: str = TEXT, **settings: Any) -> Recipe:
    path.write_text(text, encoding="utf-8")
    return dataclasses.replace(tiny(**settings), data=RunningTextConfig(path=str(path), valid=0.2))


def changed(recipe: Recipe, table: str, **values: Any) -> Recipe:
    return dataclasses.replace(recipe, **{table: dataclasses.replace(getattr(recipe, table), **values)})


@pytest.mark.parametrize(
    ("table", "key", "old", "new"),
    [
        ("model", "width", 8, 12),
        ("model", "kind", "'gru'", "lstm"),
        ("model", "dropout", 0.0, 0.5),
        ("training", "batch", 2, 4),
        ("training", "rate", 0.01, 0.02),
        ("training", "seed", 0, 1),
        ("training", "carry", False, True),
        ("training", "optimizer", "'adamw'", "sgd"),
        ("data", "valid", 0.2, 0.1),
        ("tokenizer", "min_count", 1, 2),
    ],
)
def test_a_run_is_not_resumed_under_a_recipe_that_would_have_made_another_one(
    table: str, key: str, old: object, new: Any, tmp_path: Path
) -> None:
    recipe = tiny(steps=2)
    train_recipe(recipe, tmp_path / "run")
    before = contents(tmp_path / "run")
    with pytest.raises(ConfigError) as caught:
        train_recipe(changed(recipe, table, **{key: new}), tmp_path / "run", resume=True)
    message = str(caught.value)
    assert message.startswith(f"the run was started with {table}.{key} = {old}; now it is {new!r}. ")
    assert "another folder" in message
    assert contents(tmp_path / "run") == before


def test_a_run_goes_on_when_it_is_given_more_steps(tmp_path: Path) -> None:
    expected = undisturbed(tiny(steps=9, schedule="constant", valid=0.0), tmp_path / "whole")
    train_recipe(tiny(steps=4, schedule="constant", valid=0.0), tmp_path / "run")
    done: list[int] = []
    more = tiny(steps=9, schedule="constant", valid=0.0)
    train_recipe(more, tmp_path / "run", resume=True, watcher=watching(lambda training, seen: done.append(seen.step)))
    assert done == [5, 6, 7, 8, 9]
    assert_identical(outcome(tmp_path / "run"), expected)
    assert "steps = 9" in (tmp_path / "run" / "recipe.toml").read_text()


@pytest.mark.parametrize(
    "free", [{"log_every": 3}, {"evaluate_every": 2}, {"checkpoint_every": 2}, {"keep": 1}, {"patience": 5}, {"device": "auto"}]
)
def test_what_does_not_make_another_run_may_change(free: dict[str, Any], tmp_path: Path) -> None:
    before = undisturbed(tiny(steps=2), tmp_path / "run")
    train_recipe(tiny(steps=2, **free), tmp_path / "run", resume=True)
    assert_identical(outcome(tmp_path / "run")["model"], before["model"])
    ((name, value),) = free.items()
    assert getattr(read_run_recipe(tmp_path / "run" / "recipe.toml").training, name) == value


def test_a_run_is_not_resumed_on_another_text(tmp_path: Path) -> None:
    recipe = on_file(tmp_path / "text.txt")
    train_recipe(recipe, tmp_path / "run")
    before = contents(tmp_path / "run")
    on_file(tmp_path / "text.txt", TEXT.replace("7 times 7 is 49", "7 times 7 is 48"))
    with pytest.raises(DataError, match=r"the data have changed since this run was started\. Restore"):
        train_recipe(recipe, tmp_path / "run", resume=True)
    assert contents(tmp_path / "run") == before
    on_file(tmp_path / "text.txt")
    train_recipe(recipe, tmp_path / "run", resume=True)


def test_a_run_is_not_written_over_without_resume(tmp_path: Path) -> None:
    train_recipe(tiny(), tmp_path / "run")
    before = contents(tmp_path / "run")
    with pytest.raises(
        RunError,
        match=r"already holds a run\. Add resume=True to continue it or overwrite=True to replace it, or choose another folder",
    ):
        train_recipe(tiny(), tmp_path / "run")
    assert contents(tmp_path / "run") == before


def test_overwrite_replaces_a_run_and_keeps_what_is_not_part_of_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_recipe(tiny(steps=9, checkpoint_every=3), run)
    (run / "notes.txt").write_text("mine")
    train_recipe(tiny(), run, overwrite=True)
    assert (run / "notes.txt").read_text() == "mine"
    (run / "notes.txt").unlink()
    assert_identical(outcome(run), undisturbed(tiny(), tmp_path / "other"))
    assert {path.name for path in run.rglob("*")} == {path.name for path in (tmp_path / "other").rglob("*")}


@pytest.mark.parametrize("name", ["thesis.tex", "recipe.toml", "checkpoints/x"])
def test_overwrite_leaves_alone_what_is_no_run(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("years of work")
    with pytest.raises(RunError, match="already exists and is not a run"):
        train_recipe(tiny(), folder, overwrite=True)
    assert contents(folder) == {folder / name: b"years of work"}


def test_a_run_is_kept_where_its_successor_cannot_begin(tmp_path: Path) -> None:
    train_recipe(tiny(), tmp_path / "run")
    before = contents(tmp_path / "run")
    with pytest.raises(DataError):
        train_recipe(tiny(text="a"), tmp_path / "run", overwrite=True)
    assert contents(tmp_path / "run") == before
    with pytest.raises(ConfigError, match="resume=True and overwrite=True cannot be combined"):
        train_recipe(tiny(), tmp_path / "run", resume=True, overwrite=True)


def test_a_process_killed_while_it_overwrites_leaves_room_for_the_new_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    train_recipe(tiny(), run)
    (run / "notes.txt").write_text("mine")

    def killed(folder: RunFolder) -> None:
        folder.format.unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "_remove_files", killed)
        with pytest.raises(KeyboardInterrupt):
            train_recipe(tiny(), run, overwrite=True)
    train_recipe(tiny(), run)
    assert steps_saved(run) == [6]
    assert (run / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("made", [False, True], ids=["absent", "empty"])
def test_resuming_what_is_not_there_starts_it(made: bool, tmp_path: Path) -> None:
    run = tmp_path / "deep" / "run"
    if made:
        run.mkdir(parents=True)
    train_recipe(tiny(), run, resume=True)
    assert steps_saved(run) == [6]
    assert_no_temporaries(run)


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", ["thesis.tex", "recipe.toml", "tokenizer.json", "model.safetensors", "checkpoints/x"])
def test_a_folder_that_is_no_run_is_refused_and_left_alone(name: str, resume: bool, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("years of work")
    with pytest.raises(RunError, match=r"mine already exists and is not a run; choose another folder or remove it"):
        train_recipe(tiny(), folder, resume=resume)
    assert contents(folder) == {folder / name: b"years of work"}


def test_a_file_where_the_run_should_go_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("years of work")
    with pytest.raises(RunError, match="already exists and is not a run"):
        train_recipe(tiny(), tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "years of work"


def test_a_folder_is_refused_before_the_text_is_read(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    absent = dataclasses.replace(tiny(), data=RunningTextConfig(path=str(tmp_path / "absent.txt")))
    with pytest.raises(RunError, match="not a run"):
        train_recipe(absent, tmp_path / "mine")


@pytest.mark.parametrize("missing", ["recipe.toml", "tokenizer.json"])
def test_a_run_that_lost_a_part_says_which(missing: str, tmp_path: Path) -> None:
    train_recipe(tiny(), tmp_path / "run")
    (tmp_path / "run" / missing).unlink()
    with pytest.raises(RunError, match=rf"is incomplete: {missing} is missing"):
        train_recipe(tiny(), tmp_path / "run", resume=True)


def test_a_transformer_that_is_to_carry_is_refused_and_no_run_is_begun(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"training\.carry"):
        train_recipe(tiny("transformer", carry=True), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("carry", [False, True])
def test_a_text_shorter_than_one_context_is_refused_with_both_numbers(carry: bool, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the training text has 10 tokens, but training\.context = 10"):
        train_recipe(tiny(text="abcdefghij", valid=0.0, context=10, carry=carry), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    train_recipe(tiny(text="abcdefghij", valid=0.0, context=9, carry=carry), tmp_path / "run")


def test_a_held_out_text_too_short_to_measure_on_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"held-out text has 1 tokens.*data\.valid=0"):
        train_recipe(tiny(text="0123456789" * 2, valid=0.05, context=4), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_keeps_the_tokenizer_it_was_started_with(tmp_path: Path) -> None:
    recipe = dataclasses.replace(tiny(), tokenizer=TokenizerConfig(kind="word"))
    train_recipe(recipe, tmp_path / "run")
    before = (tmp_path / "run" / "tokenizer.json").read_bytes()
    train_recipe(changed(recipe, "training", steps=8), tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "tokenizer.json").read_bytes() == before
    assert steps_saved(tmp_path / "run")[-1] == 8
