"""Arms with a recipe: a network, trained or resumed, then evaluated once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from firth.api import load
from firth.api.init_from_run import with_tokenizer_of_run
from firth.api.recipe import Recipe, compose, read_run_recipe
from firth.api.training import differences, train_into
from firth.config import read_toml
from firth.errors import ConfigError
from firth.evaluation.metrics import flat
from firth.experiments.records.cost_to_loss import cost_to_loss
from firth.experiments.studies.facts import FACTS, facts_of, setting_in
from firth.experiments.studies.learner import Measured
from firth.experiments.studies.longer_windows import expect_windows, in_windows
from firth.experiments.studies.study import Arm, Measure
from firth.files import is_file
from firth.shipped import recipe_path
from firth.tasks.run import Run
from firth.tasks.translation import TranslatorRun
from firth.training import log
from firth.training.folder import RunFolder

MEASURED = ("data", "tokenizer", "model", "objective", "training", "decoding")  # what a result depends on


@dataclass(frozen=True)
class NetworkLearner:
    """A recipe."""

    recipe: Recipe
    base: ClassVar[str] = "recipe"
    tables: ClassVar[tuple[str, ...]] = MEASURED

    @classmethod
    def of(cls, arm: Arm, chosen: Mapping[str, Any], beside: Path) -> Self:
        """The recipe of the arm, in `beside` or shipped, with these settings."""
        assert arm.recipe is not None
        own = beside / arm.recipe
        # the file as it is, not its recipe, which would have the defaults of settings that another family of models lacks
        table = read_toml(recipe_path(str(own) if is_file(own) else arm.recipe))
        table.pop("expected", None)
        return cls(compose(table, list(chosen.items())))

    @property
    def steps(self) -> int:
        return self.recipe.training.steps

    def seeded(self, seed: int, after: Path | None) -> Self:
        training = dataclasses.replace(self.recipe.training, seed=self.recipe.training.seed + seed)
        if after is not None:
            training = dataclasses.replace(training, init=str(after.absolute()))
        return dataclasses.replace(self, recipe=dataclasses.replace(self.recipe, training=training))

    def expect_measurable(self, measures: Mapping[str, Measure], arm: str) -> None:
        for name, measure in measures.items():
            if cost_to_loss(measure.metric) is not None and not self.recipe.training.evaluate_every:
                raise ConfigError(
                    f'measure.{name}.metric is "{measure.metric}", which needs validations during training. Set '
                    "training.evaluate_every."
                )
            if measure.context_ratio is not None:
                expect_windows(self.recipe, name, arm)
            self.setting_of(measure.metric)  # refuses one that does not exist

    def setting_of(self, metric: str) -> float | None:
        return setting_in({name: getattr(self.recipe, name) for name in MEASURED}, metric)

    def differences(self, folder: Path) -> list[str]:
        """A setting that firth did not have yet when the run was trained has its default in it, and is no difference."""
        run = read_run_recipe(RunFolder(folder).recipe)
        others = differences(run, with_tokenizer_of_run(self.recipe.resolved(), run), self.tables)
        return [f"{table}.{key} = {before!r} instead of {after!r}" for table, key, before, after in others]

    def run(self, folder: Path, measures: Mapping[str, Measure]) -> Measured:
        train_into(self.recipe, folder, resume=True)
        return self._measured(folder, measures)

    def _measured(self, folder: Path, measures: Mapping[str, Measure]) -> Measured:
        run: Run[Any] = load(folder, self.recipe.training.device)
        lines = log.read(RunFolder(folder).log)
        facts = facts_of(run, lines)
        evaluated: dict[tuple[str | None, str | None, float | None], Mapping[str, Any]] = {}
        values: dict[str, float | None] = {}
        for name, measure in measures.items():
            if measure.metric in FACTS:
                values[name] = facts[measure.metric]
                continue
            if (setting := self.setting_of(measure.metric)) is not None:
                values[name] = setting
                continue
            if (cost := cost_to_loss(measure.metric)) is not None:
                if not any("valid" in line for line in lines):
                    raise ConfigError(f'measure.{name}.metric is "{measure.metric}", but no data are held out. Set data.valid.')
                values[name] = cost.of(lines)
                continue
            key = (measure.split, measure.data, measure.context_ratio)
            if key not in evaluated:  # the data are read and decoded once, for all measures
                evaluated[key] = _evaluated(run, measure)
            values[name] = _number(_part(measure, evaluated[key], run), name, measure)
        first = next(iter(evaluated.values()), {})
        return Measured(values, tuple(first.get("buckets") or ()))


def _evaluated(run: Run[Any], measure: Measure) -> Mapping[str, Any]:
    if measure.context_ratio is not None:
        return in_windows(run, measure)
    metrics: Mapping[str, Any] = run.evaluate(measure.data, split=measure.split, progress=False)
    return metrics


def _part(measure: Measure, evaluated: Mapping[str, Any], run: Run[Any]) -> Mapping[str, Any]:
    """The measures of the texts that `shortest` and `longest` leave."""
    if measure.shortest is None and measure.longest is None:
        return evaluated
    part = run.expect(TranslatorRun).written(measure.data, split=measure.split).between(measure.shortest, measure.longest)
    return {} if part is None else flat(part.measures())


def _number(evaluated: Mapping[str, Any], name: str, measure: Measure) -> float | None:
    value: Any = evaluated
    if not evaluated:
        return None
    for part in measure.metric.split("."):
        if isinstance(value, list | tuple) and part.lstrip("-").isdecimal() and -len(value) <= int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, Mapping) and part in value:
            value = value[part]
        else:
            known = (
                value if isinstance(value, Mapping) else map(str, range(len(value))) if isinstance(value, list | tuple) else ()
            )
            raise ConfigError(
                f'measure.{name}.metric is "{measure.metric}", but this run has no "{part}". It has {", ".join(known)}, and '
                f"{', '.join(FACTS)}."
            )
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ConfigError(f"measure.{name}.metric is {measure.metric}, which is no number")
    return None if value is None else float(value)
