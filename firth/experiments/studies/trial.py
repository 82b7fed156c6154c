"""One run of a study: trained, or resumed, then measured once; `result.json` in its folder says that it is finished."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth import files
from firth.api import load
from firth.api.training import train_into
from firth.errors import ConfigError, Diverged, RunError
from firth.evaluation.metrics import flat
from firth.experiments.clusters.lease import leased
from firth.experiments.records.cost_to_loss import cost_to_loss
from firth.experiments.studies.facts import FACTS, facts_of, setting_of
from firth.experiments.studies.longer_windows import in_windows
from firth.experiments.studies.plan import StudyJob
from firth.experiments.studies.study import Measure
from firth.experiments.workers import remarks
from firth.files import is_file
from firth.tasks.run import Run
from firth.tasks.translation import TranslatorRun
from firth.training import log
from firth.training.folder import RunFolder

RESULT = "result.json"


@dataclass(frozen=True)
class RunResult:
    """What a finished run gave."""

    asked: Mapping[str, Mapping[str, Any]]  # what was to be measured
    measures: Mapping[str, float | None]  # None: not defined for this run
    lengths: tuple[Mapping[str, Any], ...] = ()  # scores by source length, of translators
    diverged: str | None = None  # the reason, if the loss exploded
    notes: tuple[str, ...] = ()  # remarks about the recipe, the data and the evaluation


def run_job(job: StudyJob) -> RunResult:
    """Train the job's run, from where it stopped if it exists, and measure it. A finished one is only read: plan.expect_same has
    refused those of other jobs."""
    with leased(job.folder):
        known = read_result(job.folder)
        if known is not None:
            return known
        with remarks() as notes:
            try:
                train_into(job.recipe, job.folder, resume=True)
                result = _measured(job)
            except Diverged as error:
                known_values = {name: setting_of(job.recipe, measure.metric) for name, measure in job.measures.items()}
                result = RunResult(job.asked, known_values, diverged=str(error))
        result = dataclasses.replace(result, notes=tuple(notes))
        files.write_text(job.folder / RESULT, json.dumps(dataclasses.asdict(result), indent=2) + "\n")
        return result


def read_result(folder: Path) -> RunResult | None:
    """The result of a finished run; None for one that is not."""
    place = folder / RESULT
    if not is_file(place):
        return None
    try:
        told = json.loads(place.read_text(encoding="utf-8"))
        return RunResult(told["asked"], told["measures"], tuple(told["lengths"]), told["diverged"], tuple(told["notes"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(f"{place} is damaged: {error}. Remove it, and the run is measured again.") from error


def _measured(job: StudyJob) -> RunResult:
    run: Run[Any] = load(job.folder, job.recipe.training.device)
    lines = log.read(RunFolder(job.folder).log)
    facts = facts_of(run, lines)
    evaluated: dict[tuple[str | None, str | None, float | None], Mapping[str, Any]] = {}
    values: dict[str, float | None] = {}
    for name, measure in job.measures.items():
        if measure.metric in FACTS:
            values[name] = facts[measure.metric]
            continue
        if (setting := setting_of(job.recipe, measure.metric)) is not None:
            values[name] = setting
            continue
        if (cost := cost_to_loss(measure.metric)) is not None:
            if not any("valid" in line for line in lines):
                raise ConfigError(f'measure.{name}.metric is "{measure.metric}", but no data are held out. Set data.valid.')
            values[name] = cost.of(lines)
            continue
        key = (measure.split, measure.data, measure.context_ratio)
        if key not in evaluated:  # the data are read and decoded once, for all measures
            evaluated[key] = _evaluated(run, measure)
        values[name] = _number(_part(measure, evaluated[key], run), name, measure)
    first = next(iter(evaluated.values()), {})
    return RunResult(job.asked, values, tuple(first.get("buckets") or ()))


def _evaluated(run: Run[Any], measure: Measure) -> Mapping[str, Any]:
    if measure.context_ratio is not None:
        return in_windows(run, measure)
    metrics: Mapping[str, Any] = run.evaluate(measure.data, split=measure.split, progress=False)
    return metrics


def _part(measure: Measure, evaluated: Mapping[str, Any], run: Run[Any]) -> Mapping[str, Any]:
    """The measures of the texts that `shortest` and `longest` leave."""
    if measure.shortest is None and measure.longest is None:
        return evaluated
    part = run.expect(TranslatorRun).written(measure.data, split=measure.split).between(measure.shortest, measure.longest)
    return {} if part is None else flat(part.measures())


def _number(evaluated: Mapping[str, Any], name: str, measure: Measure) -> float | None:
    value: Any = evaluated
    if not evaluated:
        return None
    for part in measure.metric.split("."):
        if isinstance(value, list | tuple) and part.lstrip("-").isdecimal() and -len(value) <= int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, Mapping) and part in value:
            value = value[part]
        else:
            known = (
                value if isinstance(value, Mapping) else map(str, range(len(value))) if isinstance(value, list | tuple) else ()
            )
            raise ConfigError(
                f'measure.{name}.metric is "{measure.metric}", but this run has no "{part}". It has {", ".join(known)}, and '
                f"{', '.join(FACTS)}."
            )
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ConfigError(f"measure.{name}.metric is {measure.metric}, which is no number")
    return None if value is None else float(value)
