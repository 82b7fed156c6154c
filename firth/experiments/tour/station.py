"""The interface of a tour station: a function that gets a guide, trains its models and returns a section of the report."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from firth.api import Recipe, Watcher
from firth.experiments.side_by_side import train_side_by_side
from firth.figures.page import Section
from firth.training.folder import RunFolder

_FEWEST = 20  # steps, however little effort


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
        steps = self.steps(enough)
        training = dataclasses.replace(
            recipe.training,
            steps=steps,
            warmup=min(recipe.training.warmup, steps // 10),
            log_every=max(1, steps // 100),
            evaluate_every=0,
        )
        return dataclasses.replace(recipe, training=training, expected=None)

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
