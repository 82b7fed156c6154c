"""Shorten training runs to fit into a station's time."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from firth.api import Recipe
from firth.api.training import start, with_facts
from firth.experiments.tour.station import Guide
from firth.training.folder import RunFolder
from firth.training.loop import fit

_OVERHEAD = 1.12  # factor on the time of the steps for evaluation, checkpoints and log
_WARM_UP = 2  # untimed steps at the start, which fill caches
_MINIMUM = 20  # steps, however little time there is


def steps_that_fit(recipes: Sequence[Recipe], guide: Guide, began: float, *, timed: int = 4, aside: int = 0) -> int:
    """The number of steps that every recipe can train in the time left, from timing a few steps of each.

    `aside`: other work per recipe, in steps that would take as long, so that the estimate also holds on a slow machine.
    """
    seconds_per_step = sum(_seconds_per_step(recipe, guide, timed) for recipe in recipes)
    left = guide.seconds - (time.perf_counter() - began)
    return max(_MINIMUM, int(left / _OVERHEAD / seconds_per_step) - aside)


def _seconds_per_step(recipe: Recipe, guide: Guide, timed: int) -> float:
    with guide.watching("timing") as watcher:
        data = recipe.task.read(recipe.tokenizer, watcher.work)
    whole = with_facts(recipe.resolved(), data)
    steps = fit(start(whole, data), whole.task.loss(data), recipe.training)
    times = [step.seconds for step in islice(steps, _WARM_UP + timed)][_WARM_UP:]
    return sorted(times)[(len(times) - 1) // 2]  # the lower median ignores an occasional slow step


def shortened(recipe: Recipe, steps: int) -> Recipe:
    training = dataclasses.replace(
        recipe.training,
        steps=steps,
        warmup=min(recipe.training.warmup, steps // 10),
        log_every=max(1, steps // 100),
        evaluate_every=0,
    )
    return dataclasses.replace(recipe, training=training, expected=None)


def cleared(path: Path) -> Path:
    """`path`, after removing a run of an earlier tour from it."""
    if RunFolder(path).exists():
        shutil.rmtree(path)
    return path
