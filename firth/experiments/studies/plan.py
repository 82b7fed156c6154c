"""From a study to its runs: one for each arm and seed, with its settings, and with what the budget makes equal."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth import files
from firth.api.recipe import Recipe
from firth.config import settings
from firth.errors import ConfigError, RunError, option
from firth.experiments.studies.budget import Solved, solved
from firth.experiments.studies.dynamics_learner import DynamicsLearner
from firth.experiments.studies.learner import Learner
from firth.experiments.studies.network_learner import NetworkLearner
from firth.experiments.studies.study import Arm, Measure, Scale, Study, chosen_settings
from firth.experiments.studies.vectors_learner import CountedVectors, TrainedVectors
from firth.files import is_file
from firth.progress import Progress

PLAN = "plan.json"
LEARNERS: tuple[type[Learner], ...] = (NetworkLearner, TrainedVectors, CountedVectors, DynamicsLearner)


@dataclass(frozen=True)
class StudyJob:
    """One run: an arm with a seed."""

    arm: str
    seed: int
    learner: Learner
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
    learners = {name: _learner(study, size, name, arm, beside) for name, arm in arms.items()}
    recipes = {name: one.recipe for name, one in learners.items() if isinstance(one, NetworkLearner)}
    found = _budget(study, recipes, out, progress)
    learners |= {name: NetworkLearner(one.applied(recipes[name])) for name, one in found.items()}
    runs = out / "runs"
    jobs = [_job(name, arm, learners[name], seed, runs, study) for name, arm in arms.items() for seed in range(count)]
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


def _learner(study: Study, size: Scale, name: str, arm: Arm, beside: Path) -> Learner:
    kind = _kind(arm)
    others = {_kind(one) for one in study.arms.values()}
    shared = [_applying(table, kind, others) for table in (study.settings, size.settings, size.overrides)]
    settings = chosen_settings([*shared[:2], arm.own_settings, shared[2]])
    learner = kind.of(arm, settings, beside)
    learner.expect_measurable(_measures(study, name), name)
    return learner


def _kind(arm: Arm) -> type[Learner]:
    return next(kind for kind in LEARNERS if kind.base == arm.base)


def _applying(table: Mapping[str, Any], kind: type[Learner], others: Iterable[type[Learner]]) -> dict[str, Any]:
    """The settings of all arms without the tables that only other arms of the study have."""
    foreign = {name for other in others for name in other.tables} - set(kind.tables)
    return {name: value for name, value in table.items() if name.partition(".")[0] not in foreign}


def _job(name: str, arm: Arm, learner: Learner, seed: int, runs: Path, study: Study) -> StudyJob:
    after = None if arm.after is None else runs / f"{arm.after}-{seed}"
    return StudyJob(name, seed, learner.seeded(seed, after), runs / f"{name}-{seed}", _measures(study, name), after)


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
    """Refuse finished runs with other settings or measures. `asked`: what they measured, by their folders."""
    for job in jobs:
        if job.folder not in asked:
            continue
        what = job.learner.differences(job.folder)
        what += [] if asked[job.folder] == job.asked else ["other measures"]
        if what:
            raise ConfigError(
                f"{job.folder} holds a finished run with {what[0]}. Choose another {option('folder', '--out')}, or remove that "
                "folder."
            )
