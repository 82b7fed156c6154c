"""The interface of a tour station: a function that gets a guide, trains its models and returns a section of the report."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from firth.api import Recipe, Watcher
from firth.api.training import train_into
from firth.experiments.compare import shortened
from firth.experiments.workers import running, workers
from firth.figures.page import Section
from firth.text.threads import cores
from firth.training.folder import RunFolder

_FEWEST = 20  # steps, however little effort


def train_side_by_side(runs: Mapping[str, tuple[Recipe, Path]], watcher: Watcher) -> None:
    """Train each recipe into its folder, in one process for each core: a second thread hardly speeds up products as small as
    theirs, a second process doubles what a machine trains. The watcher's `work` hears of the steps of all runs, by their names in
    `runs`."""
    at_once = min(cores(), len(runs))
    if at_once == 1:
        for name, (recipe, out) in runs.items():
            train_into(recipe, out, watcher=_steps_as_work(name, recipe, watcher))
        return
    with workers(at_once, threads=max(1, cores() // at_once)) as team:
        for name, (recipe, out) in runs.items():
            team.start(name, train_into, recipe, out)
        while team.tasks:
            for name in (*dict(team.ended()), *team.tasks.values()):
                recipe, out = runs[name]
                state = running(name, out, recipe.training.steps)
                if state.phase == "running":
                    watcher.work(name, state.step, state.steps)


def _steps_as_work(name: str, recipe: Recipe, watcher: Watcher) -> Watcher:
    steps = recipe.training.steps
    return Watcher(step=lambda report: watcher.work(name, report.step, steps), notice=watcher.notice)


@dataclass(frozen=True)
class Guide:
    """The settings of a station: how much to train, the folder for its runs, and a watcher for each training run.

    A station names the steps that suffice for what it shows. They do not depend on the speed of the machine, so that a tour ends
    with the same conclusions everywhere. `effort` multiplies them.
    """

    effort: float
    out: Path
    watching: Callable[[str], AbstractContextManager[Watcher]]

    def steps(self, enough: int) -> int:
        return max(_FEWEST, round(self.effort * enough))

    def shortened(self, recipe: Recipe, enough: int) -> Recipe:
        return shortened(recipe, self.steps(enough))

    def run(self, name: str) -> Path:
        """The folder of a run."""
        return self.out / "runs" / name

    def train(self, what: str, runs: Mapping[str, tuple[str, Recipe]]) -> None:
        """Train recipes side by side. `runs`: for each model, as the tour calls it, the name of its run and its recipe."""
        prepared = {model: (recipe, self._cleared(run)) for model, (run, recipe) in runs.items()}
        with self.watching(what) as watcher:
            train_side_by_side(prepared, watcher)

    def _cleared(self, run: str) -> Path:
        """The folder of a run, after removing the run of an earlier tour from it."""
        path = self.run(run)
        if RunFolder(path).exists():
            shutil.rmtree(path)
        return path


Station = Callable[[Guide], Section]
