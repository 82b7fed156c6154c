"""reproduce(): run a study, or the rest of one, and check its claims."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firth.errors import ConfigError
from firth.experiments.clusters import cluster_of
from firth.experiments.studies.plan import expect_same, plan
from firth.experiments.studies.recorded import recorded
from firth.experiments.studies.report import StudyReport
from firth.experiments.studies.runner import run_all
from firth.experiments.studies.study import find_study
from firth.experiments.studies.trial import read_result
from firth.experiments.workers import Watch
from firth.progress import Progress
from firth.progress.display import followed, shows_progress

OUT = Path("studies")


@shows_progress
def reproduce(
    study: str | Path,
    *,
    scale: str = "small",
    out: str | Path | None = None,
    seeds: int | None = None,
    jobs: int | None = None,
    ray: str | None = None,
    slurm: Mapping[str, Any] | None = None,
    watch: Watch = lambda states: None,
    progress: Progress | bool = True,
) -> StudyReport:
    """Run a study and return its report: `.text()`, `.facts()`, `.figures()`, `.save("page.html")`.

    `study`: the name of a shipped study, or a TOML file. `scale`: how large its runs are, such as "small" or "full". `out`: the
    folder of its runs, by default studies/NAME/SCALE; runs that it holds are not trained again, and interrupted ones go on.
    `seeds`: the number of runs of each model, by default the study's. `jobs`: runs at a time, by default one for each core; on a
    Ray cluster one for each of its GPUs, or CPUs if it has none. `ray`: the address of a Ray cluster that trains the runs, such
    as "auto"; its machines must share the folder of the runs. `slurm`: options of sbatch, such as {"partition": "gpu", "time":
    60}, with which each run becomes a Slurm job; needs the number of jobs, and a shared folder. `watch` is called with the state
    of all runs, about twice a second."""
    report = followed(progress)
    name, file, chosen = find_study(study)
    if (seeds is not None and seeds < 1) or (jobs is not None and jobs < 1):
        raise ConfigError(f"seeds and jobs are {seeds} and {jobs}; expected 1 or more")
    folder = OUT / name / scale if out is None else Path(out)
    cluster = cluster_of(ray, slurm, jobs)
    planned = plan(chosen, scale, folder, file.parent, seeds, report)
    known = {job.folder: one.asked for job in planned.jobs if (one := read_result(job.folder)) is not None}
    expect_same(planned.jobs, known)
    results = run_all(planned.jobs, jobs, watch, cluster, folder)
    return StudyReport(name, chosen, scale, planned, results, recorded(str(study)))
