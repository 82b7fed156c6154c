"""What a sweep was asked for. It stands in the storage, so that a sweep is only continued with what it was started with."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optuna.study import Study

from firth.api.recipe import Recipe, compose
from firth.api.training import differences
from firth.errors import ConfigError, RunError, option
from firth.experiments.studies.network_learner import MEASURED
from firth.experiments.sweeps import SamplerName
from firth.experiments.sweeps.space import SweepSpace
from firth.experiments.sweeps.storage import journal_of

_PLAN = "firth"  # the attribute of the study


@dataclass(frozen=True)
class SweepPlan:
    """A sweep: its space, and how trials are chosen from it."""

    name: str  # of the recipe
    out: Path
    space: SweepSpace
    sampler: SamplerName
    seed: int
    trials: int

    def recipe(self) -> Recipe:
        """What all trials have in common."""
        return self.space.base().resolved()

    def settings(self) -> dict[str, list[Any] | str]:
        """The values or the range of each setting that differs."""
        return {one.name: one.given for one in self.space.swept}

    def record(self, study: Study) -> None:
        """Write the plan of a new sweep; refuse another plan than that of the sweep."""
        now = {
            "metric": self.space.metric,
            "sampler": self.sampler,
            "seed": self.seed,
            "prune": self.space.prune,
            **self.settings(),
        }
        recipe = self.recipe()
        known = study.user_attrs.get(_PLAN)
        if known is None:
            study.set_user_attr(_PLAN, {"recipe": recipe.toml(), **now})
            return
        try:
            before = compose(tomllib.loads(known.pop("recipe")), notice=lambda message: None, complete=True)
            changed = [(name, old, new) for name in now | known if (old := known.get(name)) != (new := now.get(name))]
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{journal_of(self.out)} is damaged: {error}. Choose another folder.") from error
        changed += [(f"{table}.{key}", old, new) for table, key, old, new in differences(before, recipe, MEASURED)]
        for name, old, new in changed[:1]:
            raise ConfigError(
                f"the sweep in {self.out} was started with {name} = {_shown(old)}; now it is {_shown(new)}. Choose another "
                f"{option('folder', '--out')}, or continue the sweep as it was started."
            )


def _shown(value: Any) -> str:
    return "not set" if value is None else ",".join(map(str, value)) if isinstance(value, list) else str(value)
