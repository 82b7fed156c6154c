"""compare_runs(): trained models on the same texts, with tests of whether one is better than another."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from firth.errors import ConfigError
from firth.evaluation.by_text import TextCounts
from firth.evaluation.paired import PairedDifference, paired_difference
from firth.experiments.compared_models import ComparedModel, EvaluatedRun, expect_comparable, groups, measured_run
from firth.figures.figure import Figure, Table
from firth.figures.latex import latex_table
from firth.figures.page import Section, save_sections
from firth.figures.studies import differences
from firth.figures.training import AGAINST, training_curves
from firth.progress import Progress
from firth.progress.display import followed, shows_progress
from firth.tasks.splits import Split
from firth.training.config import Device

_FEWEST = 10  # rows of counts that can be drawn from
_FACTS = ("parameters", "flops", "seconds")


@dataclass(frozen=True)
class ModelDifference:
    """A metric of a model minus that of the first model."""

    metric: str
    model: str
    units: str  # what was drawn or exchanged: "500 sentences"
    tested: PairedDifference


@dataclass(frozen=True, repr=False)
class RunsComparison:
    """Models on the same texts. `.text()` prints the tables, `.facts()` is plain data, `.save(path)` writes a page."""

    models: tuple[ComparedModel, ...]  # the others are compared with the first
    differences: tuple[ModelDifference, ...]
    samples: int  # of each test
    notes: tuple[str, ...]  # what could not be tested, and why

    @property
    def metrics(self) -> list[str]:
        """Those that every run has."""
        runs = [run for model in self.models for run in model.runs]
        return [name for name in runs[0].metrics if all(name in run.metrics for run in runs)]

    def table(self) -> Table:
        """Models × metrics, as mean ± standard deviation over seeds, with the cost of their training."""
        rows = [
            (model.name, str(len(model.runs)), *(model.cell(name).text() for name in self.metrics), *map(model.fact, _FACTS))
            for model in self.models
        ]
        return Table(("", "runs", *(name.replace("_", " ") for name in self.metrics), *_FACTS), rows)

    def tests(self) -> Table:
        """The differences from the first model."""
        rows = [
            (
                one.metric.replace("_", " "),
                f"{one.model} − {self.models[0].name}",
                f"{one.tested.difference:+.4g}",
                f"{one.tested.low:+.4g} to {one.tested.high:+.4g}",
                "–" if one.tested.p is None else f"{one.tested.p:.4f}",
                one.units,
            )
            for one in self.differences
        ]
        return Table(("metric", "models", "difference", "95 % interval", "p", "over"), rows) if rows else Table((), [])

    def lead(self) -> str:
        data = self.models[0].runs[0].data
        seeds = "; mean ± standard deviation over seeds" if any(len(model.runs) > 1 for model in self.models) else ""
        return f"Evaluated on {data}{seeds}."

    def text(self) -> str:
        """The comparison as `firth compare runs` prints it."""
        lines = [self.lead(), "", *self.table().lines()]
        if self.differences:
            lines += ["", *self.tests().lines(), "", *_EXPLAINED]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def facts(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
        return {
            "data": self.models[0].runs[0].data,
            "models": {
                model.name: {
                    "runs": [str(run.path) for run in model.runs],
                    **{name: _cell_facts(model, name) for name in (*self.metrics, *_FACTS)},
                }
                for model in self.models
            },
            "samples": self.samples,
            "differences": [
                {"metric": one.metric, "model": one.model, "from": self.models[0].name, "over": one.units, **vars(one.tested)}
                for one in self.differences
            ],
            "notes": list(self.notes),
        }

    def csv(self) -> str:
        """One line for each model, run and metric."""
        written = io.StringIO()
        lines = csv.writer(written, lineterminator="\n")
        lines.writerow(("model", "run", "metric", "value"))
        for model in self.models:
            for name in (*self.metrics, *_FACTS):
                for run, value in zip(model.runs, model.values(name), strict=True):
                    lines.writerow((model.name, run.path, name, "" if value is None else value))
        return written.getvalue()

    def latex(self) -> str:
        """The table of models for a paper; it needs the package booktabs."""
        return latex_table(self.table())

    def figures(self) -> dict[str, Figure]:
        """The differences with their intervals, and the losses against tokens, steps and seconds of training."""
        of_metric: dict[str, dict[str, PairedDifference]] = {}
        for one in self.differences:
            of_metric.setdefault(one.metric, {})[one.model] = one.tested
        drawn = {
            f"Difference in {metric.replace('_', ' ')} from {self.models[0].name}": differences(
                {name: (one.difference, one.low, one.high) for name, one in models.items()}
            )
            for metric, models in of_metric.items()
        }
        logs = {model.name: model.runs[0].log for model in self.models if model.runs[0].log}
        curves = {f"Loss against {name}": training_curves(logs, "loss", name) for name in AGAINST} if logs else {}
        return drawn | curves

    def sections(self) -> list[Section]:
        tests = [Section("Differences", " ".join(_EXPLAINED), self.tests())] if self.differences else []
        drawn = [Section(title, "", Table((), []), [figure]) for title, figure in self.figures().items()]
        lead = " ".join((self.lead(), *(f"{note[:1].upper()}{note[1:]}." for note in self.notes)))
        return [Section("Results", lead, self.table()), *tests, *drawn]

    def save(self, path: str | PathLike[str]) -> list[Path]:
        """Write the page, or its figures and tables in the format of the suffix."""
        return save_sections(path, "Runs compared", self.sections(), "Made by firth compare runs.")

    def __repr__(self) -> str:
        return f"<RunsComparison: {', '.join(model.name for model in self.models)}; .text() prints it>"

    def _repr_html_(self) -> str:
        return self.table().html() + (self.tests().html() if self.differences else "")


_EXPLAINED = (
    "The interval is that of a paired bootstrap, p that of approximate randomisation:",
    "both say what other texts could change, not what other seeds could.",
)


def _cell_facts(model: ComparedModel, name: str) -> dict[str, Any]:
    cell = model.cell(name)
    return {"mean": cell.mean, "sd": cell.deviation, "values": model.values(name)}


@shows_progress
def compare_runs(
    runs: Sequence[str | Path],
    *,
    data: str | Path | None = None,
    split: Split | None = None,
    apart: bool = False,
    samples: int = 10_000,
    seed: int = 0,
    device: Device = "auto",
    progress: Progress | bool = True,
) -> RunsComparison:
    report = followed(progress)
    paths = [Path(run).expanduser() for run in runs]
    if len({path.resolve() for path in paths}) < max(2, len(paths)):
        raise ConfigError(f"runs to compare: {', '.join(map(str, paths)) or 'none'}; expected two or more different ones")
    if samples < 100:
        raise ConfigError(f"samples is {samples}; expected 100 or more")
    named = groups(paths, apart)
    measured = {path: measured_run(path, data, split, device, report) for group in named.values() for path in group}
    expect_comparable(list(measured.values()))
    models = tuple(ComparedModel(name, tuple(measured[path] for path in group)) for name, group in named.items())
    tested, notes = _tested(models, samples, seed, report)
    return RunsComparison(models, tuple(tested), samples, tuple(notes))


def _tested(
    models: Sequence[ComparedModel], samples: int, seed: int, progress: Progress
) -> tuple[list[ModelDifference], list[str]]:
    """Every model against the first, in every metric, and what could not be tested."""
    counts: dict[str, list[Mapping[str, TextCounts]]] = {model.name: _counts(model.runs) for model in models}
    first, *others = models
    if not all(counts.values()):
        return [], [f"no test: the metrics of {first.runs[0].task} are not sums over texts"]
    if not others:
        return [], ["no test: the runs differ only in their seed, so they are one model; compare them apart"]
    tested, notes = [], []
    every = [of for group in counts.values() for of in group]
    for metric in every[0]:
        if not all(metric in of for of in every):
            continue
        if len({of[metric].pieces for of in every}) > 1:
            notes.append(f"no test of {metric}: the tokenizers of the runs cut the text differently")
            continue
        rows = len(every[0][metric].count_NK)
        units = f"{rows:,} {every[0][metric].units}"
        if rows < _FEWEST:
            notes.append(f"no test of {metric} with {units}; {_FEWEST} or more are needed")
            continue
        base = [of[metric] for of in counts[first.name]]
        for other in others:
            difference = paired_difference([of[metric] for of in counts[other.name]], base, samples, seed, progress)
            tested.append(ModelDifference(metric, other.name, units, difference))
    if any(one.tested.p is None for one in tested):
        notes.append("no p where two models have different numbers of seeds, so that their answers cannot be exchanged")
    return tested, notes


def _counts(runs: Sequence[EvaluatedRun]) -> list[Mapping[str, TextCounts]]:
    """Those of each run; none if a run has none."""
    judged = [run.judged for run in runs]
    return [one.metrics for one in judged if one is not None] if all(judged) else []
