"""From a study to its runs: one for each arm and seed, with its recipe, and with what the budget makes equal."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth import files
from firth.api.init_from_run import with_tokenizer_of_run
from firth.api.recipe import Recipe, compose, find_recipe, read_run_recipe
from firth.api.training import differences
from firth.config import settings, to_table
from firth.errors import ConfigError, RunError, option
from firth.experiments.records.cost_to_loss import cost_to_loss
from firth.experiments.studies.budget import Solved, solved
from firth.experiments.studies.facts import setting_of
from firth.experiments.studies.longer_windows import expect_windows
from firth.experiments.studies.study import Arm, Measure, Scale, Study, chosen_settings
from firth.files import is_file
from firth.progress import Progress
from firth.training.folder import RunFolder

PLAN = "plan.json"
MEASURED = ("data", "tokenizer", "model", "objective", "training", "decoding")  # what a result depends on


@dataclass(frozen=True)
class StudyJob:
    """One run: an arm with a seed."""

    arm: str
    seed: int
    recipe: Recipe
    folder: Path
    measures: Mapping[str, Measure]
    after: Path | None  # a run that must be finished before this one

    @property
    def name(self) -> str:
        return f"{self.arm}, seed {self.seed}"

    @property
    def asked(self) -> dict[str, dict[str, Any]]:
        """What is measured, by name: the settings of each measure that are set."""
        return {name: _chosen(measure) for name, measure in self.measures.items()}


@dataclass(frozen=True)
class StudyPlan:
    """All runs of a study at one scale."""

    arms: Mapping[str, Arm]
    seeds: int
    jobs: tuple[StudyJob, ...]
    settings: Mapping[str, Solved]  # of each arm that the budget changed


def _chosen(config: Any) -> dict[str, Any]:
    """The settings that are not left at their defaults, so that those which later versions add make no difference."""
    return {name: value for name, value, default in settings(config) if value != default}


def plan(study: Study, scale: str, out: Path, beside: Path, seeds: int | None, progress: Progress) -> StudyPlan:
    """The runs of the study, below `out`. Recipes of the study's own lie in `beside`."""
    size = study.at(scale)
    count = seeds or size.seeds or study.seeds
    arms = _arms(study.arms, size)
    recipes = {name: _recipe(study, size, name, arm, beside) for name, arm in arms.items()}
    found = _budget(study, recipes, out, progress)
    recipes |= {name: one.applied(recipes[name]) for name, one in found.items()}
    runs = out / "runs"
    jobs = [_job(name, arm, recipes[name], seed, runs, study) for name, arm in arms.items() for seed in range(count)]
    return StudyPlan(arms, count, tuple(jobs), found)


def _arms(arms: Mapping[str, Arm], size: Scale) -> dict[str, Arm]:
    """The arms of a scale, and those whose weights they start from."""
    wanted = list(size.arms or arms)
    for name in wanted:
        before = arms[name].after
        if before is not None and before not in wanted:
            wanted.append(before)
    return {name: arm for name, arm in arms.items() if name in wanted}


def _measures(study: Study, arm: str) -> dict[str, Measure]:
    return {name: measure for name, measure in study.measure.items() if measure.of(arm)}


def _recipe(study: Study, size: Scale, label: str, arm: Arm, beside: Path) -> Recipe:
    own = beside / arm.recipe
    settings = chosen_settings([study.settings, size.settings, arm.settings, size.overrides])
    recipe = find_recipe(str(own) if is_file(own) else arm.recipe)
    table = {name: value for name, value in to_table(recipe).items() if name != "expected"}
    chosen = compose(table, list(settings.items()))
    for name, measure in _measures(study, label).items():
        if cost_to_loss(measure.metric) is not None and not chosen.training.evaluate_every:
            raise ConfigError(
                f'measure.{name}.metric is "{measure.metric}", which needs validations during training. Set '
                "training.evaluate_every."
            )
        if measure.context_ratio is not None:
            expect_windows(chosen, name, arm.recipe)
        setting_of(chosen, measure.metric)  # refuses one that does not exist
    return chosen


def _job(name: str, arm: Arm, recipe: Recipe, seed: int, runs: Path, study: Study) -> StudyJob:
    before = None if arm.after is None else runs / f"{arm.after}-{seed}"
    training = dataclasses.replace(recipe.training, seed=recipe.training.seed + seed)
    if before is not None:
        training = dataclasses.replace(training, init=str(before.absolute()))
    return StudyJob(
        name, seed, dataclasses.replace(recipe, training=training), runs / f"{name}-{seed}", _measures(study, name), before
    )


def _budget(study: Study, recipes: Mapping[str, Recipe], out: Path, progress: Progress) -> dict[str, Solved]:
    """What the budget changes, from the plan of an earlier start if there is one: speed is not measured twice."""
    if study.budget is None:
        return {}
    key = hashlib.sha256(
        json.dumps([_chosen(study.budget), {name: _chosen(recipe) for name, recipe in recipes.items()}], default=str).encode()
    ).hexdigest()
    place = out / PLAN
    if is_file(place):
        known = _read(place)
        if known["key"] == key:
            return {name: Solved(**one) for name, one in known["arms"].items()}
    found = solved(study.budget, recipes, progress)
    out.mkdir(parents=True, exist_ok=True)
    arms = {name: dataclasses.asdict(one) for name, one in found.items()}
    files.write_text(place, json.dumps({"key": key, "arms": arms}, indent=2) + "\n")
    return found


def _read(place: Path) -> dict[str, Any]:
    try:
        known = json.loads(place.read_text(encoding="utf-8"))
        return {"key": str(known["key"]), "arms": dict(known["arms"])}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(f"{place} is damaged: {error}. Remove it to solve the budget again.") from error


def expect_same(jobs: Sequence[StudyJob], asked: Mapping[Path, Mapping[str, Any]]) -> None:
    """Refuse finished runs with other settings or measures. `asked`: what they measured, by their folders. A setting that firth
    did not have yet when a run was trained has its default in it, and is no difference."""
    for job in jobs:
        if job.folder not in asked:
            continue
        run = read_run_recipe(RunFolder(job.folder).recipe)
        others = differences(run, with_tokenizer_of_run(job.recipe.resolved(), run), MEASURED)
        what = [f"{table}.{key} = {before!r} instead of {after!r}" for table, key, before, after in others]
        what += [] if asked[job.folder] == job.asked else ["other measures"]
        if what:
            raise ConfigError(
                f"{job.folder} holds a finished run with {what[0]}. Choose another {option('folder', '--out')}, or remove that "
                "folder."
            )
