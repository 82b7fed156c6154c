"""What a sweep found: a table of its trials, the best one, and Optuna's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from firth.figures.figure import Figure, Number, Table
from firth.figures.latex import latex_table
from firth.figures.page import Section, save_sections


@dataclass(frozen=True)
class SweepTrial:
    """A trial of a sweep."""

    number: int  # from 0 on
    ending: str  # finished, pruned, diverged or failed
    value: float | None  # the best validation; if it was pruned or diverged, None
    settings: Mapping[str, Any]  # the settings that differ between trials
    steps: int  # that were trained
    run: Path  # its folder
    reason: str | None = None  # why it diverged or failed
    notes: Sequence[str] = ()  # remarks about its recipe and its data


@dataclass(frozen=True, repr=False)
class SweepReport:
    """The result of a sweep. `.text()` prints it, `.facts()` is plain data, `.save(path)` writes a page with all figures."""

    recipe: str  # its name
    out: Path  # the folder of the sweep
    metric: str  # of validation, by which trials are compared
    higher: bool  # whether a higher value is better
    sampler: str  # how settings were chosen
    seed: int  # of the sampler
    swept: Mapping[str, Any]  # the values or the range of each setting
    trials: Sequence[SweepTrial]  # in their order
    study: Any  # Optuna's, an optuna.study.Study

    @property
    def best(self) -> SweepTrial | None:
        """The trial with the best validation; None if none has finished."""
        return next(iter(self.ranked()), None)

    def ranked(self) -> list[SweepTrial]:
        """The finished trials, best first."""
        finished = [(one.value, one) for one in self.trials if one.value is not None]
        return [one for _, one in sorted(finished, key=lambda pair: -pair[0] if self.higher else pair[0])]

    def table(self) -> Table:
        """The trials, best first, then those that did not finish."""
        ranked = self.ranked()
        rest = [one for one in self.trials if one.value is None]
        return self._table([*ranked, *rest])

    def _table(self, trials: Sequence[SweepTrial]) -> Table:
        rows = [
            (
                Number(one.number),
                "–" if one.value is None else Number(one.value, ".4f"),
                *(_cell(one.settings.get(name)) for name in self.swept),
                Number(one.steps),
                one.ending,
            )
            for one in trials
        ]
        return Table(("trial", self.metric.replace("_", " "), *self.swept, "steps", "ending"), rows)

    def lead(self) -> list[str]:
        """The sweep in sentences."""
        count = f"{len(self.trials)} trial{'s' * (len(self.trials) != 1)}"
        order = "highest" if self.higher else "lowest"
        lines = [
            f"{self.recipe}: {count}, sampler {self.sampler} with seed {self.seed}; the {order} validation {self.metric} is best."
        ]
        lines += [f"Trial {one.number} {one.ending}: {one.reason}" for one in self.trials if one.reason]
        return [*lines, *dict.fromkeys(note for one in self.trials for note in one.notes)]

    def text(self) -> str:
        """The report as `firth sweep` prints it."""
        return "\n".join([*self.lead(), "", *self.table().lines(), "", *self._conclusion()])

    def _conclusion(self) -> list[str]:
        best = self.best
        if best is None:
            return ["No trial has finished."]
        chosen = ", ".join(f"{name} = {_cell(value)}" for name, value in best.settings.items())
        return [
            f"Best: trial {best.number}, {self.metric} {best.value:.4f} with {chosen}.",
            f"Evaluate it: firth evaluate {best.run}",
            f"Train it again with another seed: firth train {best.run / 'recipe.toml'} --training.seed=1 --out RUN",
        ]

    def facts(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
        trials = {one.number: _facts(one) for one in self.trials}
        return {
            "recipe": self.recipe,
            "out": str(self.out),
            "metric": self.metric,
            "direction": "higher" if self.higher else "lower",
            "sampler": self.sampler,
            "seed": self.seed,
            "settings": dict(self.swept),
            "trials": list(trials.values()),
            "best": None if self.best is None else trials[self.best.number],
            "importances": self.importances,
        }

    def csv(self) -> str:
        """One line for each trial, in their order."""
        return self._table(self.trials).csv()

    def latex(self) -> str:
        """The table for a paper; it needs the package booktabs."""
        return latex_table(self.table())

    @cached_property
    def importances(self) -> dict[str, float]:
        """The share of each setting in the variance of the metric (fANOVA, Hutter et al. 2014); empty if too few trials have
        finished, or all are equally good."""
        from firth.experiments.sweeps.figures import importances

        return importances(self.study)

    def sections(self) -> list[Section]:
        from firth.experiments.sweeps.figures import drawn

        figures = [Section(title, lead, Table((), []), [figure]) for title, lead, figure in drawn(self)]
        conclusion = [("The best trial", "\n".join(self._conclusion()))]
        return [Section("Trials", " ".join(self.lead()), self.table(), excerpts=conclusion), *figures]

    def figures(self) -> dict[str, Figure]:
        """The figures by their titles."""
        return {section.title: figure for section in self.sections() for figure in section.figures}

    def save(self, path: str | PathLike[str]) -> list[Path]:
        """Write the page, or its figures and tables in the format of the suffix."""
        return save_sections(path, f"Sweep of {self.recipe}", self.sections(), "Made by firth sweep.")

    def __repr__(self) -> str:
        best = "" if self.best is None else f", best {self.metric} {self.best.value:.4f}"
        return f"<SweepReport: {self.recipe}, {len(self.trials)} trials{best}; .text() prints it>"

    def _repr_html_(self) -> str:
        return self.table().html()


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    return Number(value, ".4g" if isinstance(value, float) else "") if isinstance(value, int | float) else str(value)


def _facts(trial: SweepTrial) -> dict[str, Any]:
    return {**vars(trial), "run": str(trial.run), "settings": dict(trial.settings), "notes": list(trial.notes)}
