"""One run of a study: trained, or resumed, then measured once; `result.json` in its folder says that it is finished."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth import files
from firth.errors import Diverged, RunError
from firth.experiments.clusters.lease import leased
from firth.experiments.studies.plan import StudyJob
from firth.experiments.workers import remarks
from firth.files import is_file

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
                measured = job.learner.run(job.folder, job.measures)
                result = RunResult(job.asked, measured.values, tuple(measured.lengths))
            except Diverged as error:
                known_values = {name: job.learner.setting_of(measure.metric) for name, measure in job.measures.items()}
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
