"""The runs of a study, several at a time: those that are finished are skipped, and those that were stopped go on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from firth.experiments.studies.plan import StudyJob
from firth.experiments.studies.trial import RunResult, read_result, run_job
from firth.experiments.workers import Cluster, RunProgress, Watch, Workers, running, workers_on
from firth.text.threads import cores


def run_all(
    jobs: Sequence[StudyJob], at_once: int | None, watch: Watch, cluster: Cluster | None, out: Path
) -> dict[Path, RunResult]:
    """The result of every job, by its folder below `out`."""
    results = {job.folder: one for job in jobs if (one := read_result(job.folder)) is not None}
    waiting = [job for job in jobs if job.folder not in results]
    watch(_states(jobs, results, ()))
    if waiting:
        with workers_on(cluster, out, at_once, len(waiting), cores()) as team:
            _run(waiting, list(jobs), results, team, watch)
    watch(_states(jobs, results, ()))
    return results


def _run(
    waiting: list[StudyJob], jobs: Sequence[StudyJob], results: dict[Path, RunResult], team: Workers[StudyJob], watch: Watch
) -> None:
    def ready(free: int) -> list[StudyJob]:
        chosen = [one for one in waiting if one.after is None or one.after in results][:free]
        for job in chosen:
            waiting.remove(job)
        return chosen

    def done(job: StudyJob, result: RunResult) -> None:
        results[job.folder] = result

    team.work(ready, run_job, done, lambda: watch(_states(jobs, results, team.tasks.values())))


def _states(jobs: Sequence[StudyJob], results: dict[Path, RunResult], submitted: Iterable[StudyJob]) -> list[RunProgress]:
    training = {job.folder for job in submitted}
    return [_state(job, results.get(job.folder), job.folder in training) for job in jobs]


def _state(job: StudyJob, result: RunResult | None, submitted: bool) -> RunProgress:
    steps = job.learner.steps
    if result is not None:
        return RunProgress(job.name, "finished", steps, steps, result=_values(job, result))
    return running(job.name, job.folder, steps) if submitted else RunProgress(job.name, "waiting", steps)


def _values(job: StudyJob, result: RunResult) -> str:
    if result.diverged is not None:
        return "diverged"
    told = ((name, value, job.measures[name]) for name, value in result.measures.items())
    return "  ".join(f"{name} {of.missing if value is None else f'{value:,.{of.digits}f}'}" for name, value, of in told)
