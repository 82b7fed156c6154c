"""The space of a sweep: a recipe, and the settings in it that differ between trials."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optuna.trial import Trial

from firth.api.recipe import Recipe, compose
from firth.config import Table, names_in, number_types, override, read_toml, to_table
from firth.errors import ConfigError, option
from firth.experiments.sweeps.swept import SweptSetting, choice, ranged
from firth.shipped import recipe_path
from firth.training.metric import METRICS

SELECT = "training.select"  # names the metric that trials are compared by
_TRIES = 64  # combinations that are tried for a value that the recipe refuses on its own
Settings = Mapping[str, Sequence[Any] | str]


@dataclass(frozen=True)
class SweepSpace:
    """What the trials of a sweep have in common, and in what they differ."""

    table: Table  # the recipe as written
    changes: Mapping[str, Any]  # settings that replace those of the recipe in every trial
    swept: tuple[SweptSetting, ...]
    metric: str  # of validation
    prune: bool

    @property
    def higher(self) -> bool:
        """Whether a higher value of the metric is better."""
        return METRICS[self.metric].higher

    @property
    def combinations(self) -> int | None:
        """The number of different trials; None if there are infinitely many."""
        sizes = [None if one.values is None else len(one.values) for one in self.swept]
        return None if None in sizes else math.prod(size for size in sizes if size is not None)

    def suggest(self, trial: Trial) -> dict[str, Any]:
        return {one.name: one.suggest(trial) for one in self.swept}

    def base(self, values: Mapping[str, Any] | None = None) -> Recipe:
        """The recipe with these values, which need not be those of all settings."""
        assignments = [*self.changes.items(), (SELECT, self.metric), *(values or {}).items()]
        return compose(self.table, assignments, lambda message: None)

    def recipe(self, values: Mapping[str, Any]) -> Recipe:
        """The recipe of a trial with these values."""
        made = self.base(values)
        training = made.training
        if self.prune and not 0 < training.evaluate_every < training.steps:
            raise ConfigError(
                f"{option('prune=True')} needs validations before the last step; training.evaluate_every is "
                f"{training.evaluate_every}, training.steps is {training.steps}. Set training.evaluate_every."
            )
        return made


def space_of(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    settings: Settings,
    changes: Mapping[str, Any],
    metric: str | None,
    prune: bool,
) -> SweepSpace:
    """The space, once every value in it has made a recipe with some of the others."""
    table = _table(recipe)
    base = compose(table, list(changes.items()))
    if base.data.path == "-":
        raise ConfigError('data.path is "-", but several trials cannot read one standard input. Save the text to a file.')
    fixed_names = {_current(table, changes, name) for name in changes}
    swept: dict[str, SweptSetting] = {}
    for given, values in settings.items():
        one = _swept(base, _current(table, changes, given), values)
        _expect_free(one.name, swept, fixed_names)
        swept[one.name] = one
    if not swept:
        raise ConfigError(
            f"a sweep needs settings that differ. Give {option('settings', '--set KEY=a,b')} or "
            f"{option('a range', '--range KEY=LOW:HIGH')}."
        )
    by = metric or base.training.select
    base.task.check_metric(option("metric", "--metric"), by, base.task.selecting)
    space = SweepSpace(table, changes, tuple(swept.values()), by, prune)
    for one in space.swept:
        for value in one.ends:
            _expect_possible(space, one.name, value)
    return space


def _table(recipe: str | Path | Mapping[str, Any] | Recipe) -> Table:
    if isinstance(recipe, Recipe):
        return to_table(recipe)
    return dict(recipe) if isinstance(recipe, Mapping) else read_toml(recipe_path(str(recipe)))


def _swept(base: Recipe, name: str, values: Sequence[Any] | str) -> SweptSetting:
    if not isinstance(values, str):
        return choice(name, values)
    top, _, inner = name.partition(".")
    own = {"data": type(base.data), "objective": type(base.objective)}.get(top)
    schema, within = (Recipe, name) if own is None else (own, inner)
    if within not in names_in(schema):
        compose(to_table(base), [(name, 0)], lambda message: None)  # refuses it with advice
    return ranged(name, values, number_types(schema, within))


def _expect_free(name: str, swept: Iterable[str], fixed_names: Iterable[str]) -> None:
    if name in swept:
        raise ConfigError(f"{name} is given twice. Give it one list or one range.")
    if name in fixed_names:
        raise ConfigError(f"{name} is fixed, but also swept. Remove one of the two.")
    if name == SELECT:
        raise ConfigError(f"trials are compared by one metric, so {SELECT} cannot differ. Use {option('metric', '--metric')}.")


class _Mark:
    """A value that no setting has."""


def _current(table: Mapping[str, Any], changes: Mapping[str, Any], name: str) -> str:
    """The current name of a setting, which may have been given its old one, or as the table that it decides about."""
    mark = _Mark()
    if "." not in name:
        raise ConfigError(f'"{name}" is not a setting. Write it as table.key, such as model.depth.')
    marked = override(table, [*((key, value) for key, value in changes.items() if key != name), (name, mark)], Recipe)
    return next((found for found, value in _flat(marked) if value is mark), name)


def _flat(table: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{at}{name}.")
        else:
            yield f"{at}{name}", value


def _expect_possible(space: SweepSpace, name: str, value: Any) -> None:
    """Refuse a value with which nothing that was tried makes a recipe: alone, then with values of the other settings."""
    others = [one for one in space.swept if one.name != name]
    combined = itertools.product(*([(one.name, end) for end in one.ends] for one in others))
    first: ConfigError | None = None
    for more in itertools.islice(itertools.chain([()], combined), _TRIES):
        try:
            space.recipe({name: value, **dict(more)})
            return
        except ConfigError as error:
            first = first or error
    assert first is not None
    raise first
