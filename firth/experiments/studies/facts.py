"""What is known about a run without evaluating it: its size, its cost and its settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from firth.config import settings
from firth.errors import ConfigError, did_you_mean
from firth.experiments.studies.budget import training_flops
from firth.models.counting import count
from firth.tasks.run import Run

FACTS = ("parameters", "flops", "tokens", "steps", "seconds", "tokens_per_second", "state_per_token", "state")


def setting_in(tables: Mapping[str, Any], metric: str) -> float | None:
    """The value of the setting that a metric names, such as "training.rate"; None if it names none. `tables`: configs by name."""
    table, _, name = metric.partition(".")
    if table not in tables or not name:
        return None
    known = {setting: value for setting, value, _ in settings(tables[table])}
    if name not in known:
        raise ConfigError(f'the metric "{metric}" is no setting of these runs.{did_you_mean(name, known)}')
    value = known[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f'the metric "{metric}" is {value!r} in one of the runs, which is no number')
    return float(value)


def facts_of(run: Run[Any], lines: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Size and cost of a trained run, from its network and the lines of its log."""
    last = lines[-1] if lines else {}
    training = run.recipe.training
    counts = count(run.network)
    attended = training.context if run.recipe.model.kind == "transformer" else 0
    steps = dataclasses.replace(run.recipe, training=dataclasses.replace(training, steps=max(1, last.get("step", 1))))
    return {
        "parameters": float(counts.parameters),
        "flops": float(training_flops(steps, counts.flops(attended))) if lines else None,
        "tokens": last.get("tokens"),
        "steps": last.get("step"),
        "seconds": last.get("seconds"),
        "tokens_per_second": last.get("tokens_per_second"),
        "state_per_token": float(counts.state_per_token),
        "state": float(counts.state),
    }
