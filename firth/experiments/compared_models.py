"""The models of a comparison: runs that differ only in their seed are one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from firth.api import load
from firth.errors import ConfigError
from firth.evaluation.by_text import JudgedTexts
from firth.experiments.records.run_record import RunRecord, read_record
from firth.experiments.studies.facts import facts_of
from firth.experiments.studies.study import Measure
from firth.experiments.studies.tables import MeasuredCell
from firth.figures.training import Log
from firth.progress import Progress
from firth.tasks.run import Run
from firth.tasks.splits import Split
from firth.training import log
from firth.training.config import Device
from firth.training.folder import RunFolder
from firth.training.metric import METRICS

_SEED = "training.seed"
# Settings that change neither the model nor what it learned from.
_BESIDE = (_SEED, "summary", "training.device", "training.log_every", "training.checkpoint_every", "training.keep")
_DIGITS = {"parameters": 0, "steps": 0, "tokens": 0, "seconds": 1, "tokens_per_second": 0, "bleu": 2, "chrf": 2, "perplexity": 3}


@dataclass(frozen=True)
class EvaluatedRun:
    """What one run gave."""

    path: Path
    task: str
    metrics: Mapping[str, float]
    facts: Mapping[str, float | None]  # size and cost of the training
    judged: JudgedTexts | None  # None if the metrics of the task are not sums over texts
    data: str  # the name of the data
    log: Log


@dataclass(frozen=True)
class ComparedModel:
    """The runs of one model, one for each seed."""

    name: str
    runs: tuple[EvaluatedRun, ...]

    def values(self, name: str) -> list[float | None]:
        """A metric, or a fact about the training, of each run."""
        return [run.metrics.get(name, run.facts.get(name)) for run in self.runs]

    def cell(self, name: str) -> MeasuredCell:
        return MeasuredCell.over(self.values(name), None, Measure(metric=name, digits=_DIGITS.get(name, 4)))

    def fact(self, name: str) -> str:
        """A fact about the training for the table: its mean; FLOPs as 1.2e+15."""
        mean = self.cell(name).mean
        return "–" if mean is None else f"{mean:.2g}" if name == "flops" else f"{mean:,.{_DIGITS[name]}f}"


def groups(paths: Sequence[Path], apart: bool) -> dict[str, list[Path]]:
    """The runs of each model, by its name; with `apart`, every run is a model."""
    records = {path: read_record(path) for path in paths}
    of_model: dict[object, list[Path]] = {}
    for path, record in records.items():
        of_model.setdefault(path if apart else _identity(record), []).append(path)
    named: dict[str, list[Path]] = {}
    for runs in of_model.values():
        runs.sort(key=lambda path: _seed(records[path]))
        name = runs[0].name if len(runs) == 1 else _without_seed(records[runs[0]], runs[0].name)
        if name in named:  # of runs with the same name in two folders
            name = str(runs[0])
        named[name] = runs
    return named


def _identity(record: RunRecord) -> object:
    kept = {name: value for name, value in record.settings.items() if name not in _BESIDE and not name.startswith("expected")}
    return repr(sorted(kept.items()))


def _seed(record: RunRecord) -> int:
    return int(record.value(_SEED) or 0)


def _without_seed(record: RunRecord, name: str) -> str:
    """gru-0 → gru"""
    return name.removesuffix(str(_seed(record))).rstrip("-_. ") or name


def measured_run(path: Path, data: str | Path | None, split: Split | None, device: Device, progress: Progress) -> EvaluatedRun:
    """Load and evaluate a run."""
    run: Run[Any] = load(path, device)
    judged = run.by_text(data, split=split, progress=progress)
    if judged is None:
        measured = run.evaluate(data, split=split, progress=progress)
        metrics = {one: float(value) for one, value in measured.items() if one in METRICS and _is_number(value)}
        name = str(measured.get("split", ""))
    else:
        metrics, name = {one: counts.value for one, counts in judged.metrics.items()}, judged.name
    lines = log.read(RunFolder(path).log)
    return EvaluatedRun(path, run.task.name, metrics, facts_of(run, lines), judged, name, lines)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def expect_comparable(runs: Sequence[EvaluatedRun]) -> None:
    """Refuse runs of several tasks, and runs that were evaluated on different texts."""
    first, *others = runs
    for other in others:
        if other.task != first.task:
            raise ConfigError(
                f"{first.path} does {first.task}, {other.path} {other.task}. Only runs of the same task can be compared."
            )
        if first.judged is not None and other.judged is not None and first.judged.texts != other.judged.texts:
            raise ConfigError(
                f"{first.path} and {other.path} were not evaluated on the same texts ({first.data} and {other.data} of their own "
                "data, as their tokenizers read them). Give the same file to both, as data or --data."
            )
