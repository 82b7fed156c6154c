"""firth.train(): what `firth train` does, from Python; and runs that know what they can do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runs import recipe_table

import firth
from firth.api import compose, find_recipe, load
from firth.config import to_toml
from firth.errors import ConfigError, RunError
from firth.tasks import TASKS, default_task
from firth.tasks.classification import ClassifierRun
from firth.tasks.next_token import LanguageModelRun
from firth.tasks.run import Run, WrongTask
from firth.training import log
from firth.training.trainer import StepReport

SHORT = {"steps": 3, "log_every": 1, "device": "cpu"}


def test_a_shipped_recipe_is_trained_by_its_name_with_single_settings_changed(tmp_path: Path) -> None:
    run = firth.train("hello", out=tmp_path / "run", training={"steps": 100}, decoding={"tokens": 2})
    assert isinstance(run, LanguageModelRun)
    assert run.recipe.training.steps == 100
    assert run.recipe.model == find_recipe("hello").model
    assert run.generate("h") == "el"


def losses(run: Run[Any], folder: Path) -> list[float]:
    assert isinstance(run, LanguageModelRun)
    return [line["loss"] for line in log.read(folder / "log.jsonl")]


def test_a_name_a_file_a_dict_and_a_recipe_are_the_same(tmp_path: Path) -> None:
    table = recipe_table() | {"training": recipe_table()["training"] | SHORT}
    recipe = compose(table)
    (tmp_path / "mine.toml").write_text(to_toml(recipe), encoding="utf-8")
    given: list[Any] = [table, recipe, tmp_path / "mine.toml", str(tmp_path / "mine.toml")]
    losses_of_each = [losses(firth.train(one, tmp_path / str(n)), tmp_path / str(n)) for n, one in enumerate(given)]
    assert len(losses_of_each[0]) == 3
    assert all(one == losses_of_each[0] for one in losses_of_each)
    changed = firth.train(recipe, tmp_path / "changed", model={"width": 8})
    assert changed.recipe.model.width == 8


def test_it_resumes_to_the_bit_and_does_not_overwrite(tmp_path: Path) -> None:
    table = recipe_table() | {"training": recipe_table()["training"] | SHORT}
    whole = losses(firth.train(table, tmp_path / "whole", training={"steps": 5, "schedule": "constant"}), tmp_path / "whole")
    firth.train(table, tmp_path / "run", training={"schedule": "constant"})
    with pytest.raises(RunError, match="already holds a run"):
        firth.train(table, tmp_path / "run")
    run = firth.train(table, tmp_path / "run", training={"steps": 5, "schedule": "constant"}, resume=True)
    assert losses(run, tmp_path / "run") == whole


def test_progress_is_told_of_the_data_and_of_every_step(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    table = recipe_table() | {"training": recipe_table()["training"] | SHORT}
    firth.train(table, tmp_path / "run", progress=lambda what, done, total: told.append((what, done, total)))
    assert [done for what, done, total in told if what == "training"] == [0, 1, 2, 3]
    assert {total for what, _, total in told if what == "training"} == {3}
    assert any(what != "training" for what, _, _ in told)


def test_on_step_is_called_with_each_record_and_both_ways_to_train_return_the_run(tmp_path: Path) -> None:
    seen: list[StepReport] = []
    table = recipe_table() | {"training": recipe_table()["training"] | SHORT}
    run = firth.train(table, tmp_path / "run", on_step=seen.append)
    assert [(record.step, record.loss) for record in seen] == list(enumerate(losses(run, tmp_path / "run"), 1))
    assert seen[-1].valid is not None
    same = firth.train_recipe(compose(table), tmp_path / "same")
    assert type(same) is type(run)
    assert same.score(["the list"]) == run.score(["the list"])


def test_an_unknown_table_or_setting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'unknown key "training\.step" in "training"\. Did you mean "steps"'):
        firth.train("hello", tmp_path / "run", training={"step": 3})
    with pytest.raises(ConfigError, match=r'there is no recipe "helo"\. Did you mean "hello"'):
        firth.train("helo", tmp_path / "run")


def test_a_run_without_a_method_says_who_has_it_and_what_it_can_do_itself(char_run: Path) -> None:
    run: Any = load(char_run)
    with pytest.raises(WrongTask, match=r"this run is a language model and cannot classify; it can: generate, score"):
        run.classify(["a"])
    with pytest.raises(AttributeError, match=r"object has no attribute 'generat'\. Did you mean \"generate\"\?"):
        run.generat("a")
    assert not hasattr(run, "classify")
    assert hasattr(run, "generate")


def test_a_kind_of_run_can_be_asked_for_when_it_is_loaded(char_run: Path) -> None:
    assert isinstance(load(char_run, kind=LanguageModelRun), LanguageModelRun)
    for refused in (lambda: load(char_run, kind=ClassifierRun), lambda: load(char_run).expect(ClassifierRun)):
        with pytest.raises(WrongTask, match="this run is a language model and cannot classify"):
            refused()


def test_every_task_states_all_its_facts_and_has_a_run_of_its_own() -> None:
    assert len({task.name for task in TASKS}) == len(TASKS)
    assert len({task.run_class for task in TASKS}) == len(TASKS)
    for task in TASKS:
        assert TASKS[task.name] is task
        assert set(task.selecting) <= set(task.metrics)
        assert "loss" in task.selecting
        assert any(one.command for one in task.can)
        assert task.noun.startswith(("a ", "an "))
        assert task.Objective(kind=task.name).kind == task.name
        assert all(hasattr(task.run_class, one.method) for one in task.can)


@pytest.mark.parametrize(
    ("family", "kind"), [("language", "next-token"), ("encoder", "classification"), ("seq2seq", "translation")]
)
def test_a_recipe_that_names_no_objective_has_its_familys_first(family: str, kind: str) -> None:
    assert default_task(family).name == kind


@pytest.mark.parametrize("key", ["letters", "noise", "label", "word", "target_path", "examples"])
def test_settings_of_other_tasks_are_read_at_their_defaults_and_refused_otherwise(key: str) -> None:
    """As older runs wrote them: every setting of every kind of data."""
    defaults = {"letters": 8, "noise": 0.0, "label": "label", "examples": 16}
    table = {"data": {"text": "some text"}, "model": {"kind": "gru"}}
    if key in defaults:
        assert compose({**table, "data": {"text": "some text", key: defaults[key]}}) == compose(table)
    with pytest.raises(ConfigError, match=rf'data\.{key} only applies to .*; objective\.kind is "next-token"\. Remove it\.'):
        compose({**table, "data": {"text": "some text", key: "other" if key not in ("letters", "noise", "examples") else 5}})
