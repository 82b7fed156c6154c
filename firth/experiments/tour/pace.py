"""Trainings that fit into the time a station has."""

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

_OVERHEAD = 1.12  # evaluation, checkpoints and log, as a factor on the time of the bare steps
_WARMING = 2  # first steps, which fill caches and are not timed
_FEWEST = 20  # steps, however little time there is


def steps_that_fit(recipes: Sequence[Recipe], guide: Guide, began: float, *, timed: int = 4, aside: int = 0) -> int:
    """The number of steps that all of them can take in the time left, each timed on a few steps of its own.

    `aside`: what else each has to do, as the number of steps that would take as long. Told so, it holds on a slow machine, too.
    """
    seconds_per_step = sum(_seconds_per_step(recipe, guide, timed) for recipe in recipes)
    left = guide.seconds - (time.perf_counter() - began)
    return max(_FEWEST, int(left / _OVERHEAD / seconds_per_step) - aside)


def _seconds_per_step(recipe: Recipe, guide: Guide, timed: int) -> float:
    with guide.watching("timing") as watcher:
        data = recipe.task.read(recipe.tokenizer, watcher.work)
    whole = with_facts(recipe.resolved(), data)
    steps = fit(start(whole, data), whole.task.loss(data), recipe.training)
    times = [step.seconds for step in islice(steps, _WARMING + timed)][_WARMING:]
    return sorted(times)[(len(times) - 1) // 2]  # the lower median shrugs off a hiccup


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
    """The place for a run; an earlier tour's run there makes way."""
    if RunFolder(path).exists():
        shutil.rmtree(path)
    return path
