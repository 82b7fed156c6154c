"""Runs as Slurm jobs, through submitit. A run that needs more time than its job saves shortly before the end, and goes on in
another job."""

from __future__ import annotations

import contextlib
import importlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth.errors import ConfigError, RunError, option
from firth.experiments.clusters.remote_call import Outcome, RemoteCall
from firth.experiments.clusters.remote_pool import LOOK_EVERY, Lost, RemotePool

_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<parts>\d+(?::\d+){0,2})")
_EXECUTORS = ("slurm", "local")  # of submitit; the second one starts processes of this machine
_MINUTES = 60  # for each job, unless `time` says it


@dataclass(frozen=True)
class SlurmCluster:
    """The cluster that `sbatch` submits to."""

    settings: Mapping[str, Any]  # options of sbatch

    @contextlib.contextmanager
    def pool(self, jobs: int | None, most: int, threads: int, folder: Path) -> Iterator[tuple[int, RemotePool[Any]]]:
        assert jobs is not None  # `cluster_of` expects it
        with SubmititPool(folder, threads, self._executor(folder, threads)) as pool:
            yield min(jobs, most), pool

    def _executor(self, folder: Path, threads: int) -> Any:
        submitit: Any = importlib.import_module("submitit")
        given = dict(self.settings)
        try:
            executor = submitit.AutoExecutor(folder / "slurm", cluster=given.pop("cluster", "slurm"))
        except RuntimeError as error:
            raise RunError(f"{error}. Start the command where `sbatch` works.") from error
        known = submitit.SlurmExecutor._valid_parameters()
        own = {name: value for name, value in given.items() if name in known and name != "time"}
        others = {name: value for name, value in given.items() if name not in known}
        usual = {"cpus_per_task": threads, "job_name": "firth"}
        executor.update_parameters(
            timeout_min=minutes(given.get("time", _MINUTES)),
            slurm_additional_parameters={"no_requeue": True} | others,  # the first machine submits it again
            **{f"slurm_{name}": value for name, value in (usual | own).items()},
        )
        return executor


def read_settings(text: str) -> dict[str, Any]:
    """ "partition=gpu,time=60,exclusive=true" → {"partition": "gpu", "time": 60, "exclusive": True}. A comma ends a value only
    before another NAME=, so that lists such as nodelist=a1,a2 stay whole."""
    settings: dict[str, Any] = {}
    for part in re.split(r",(?=[a-z_-]+=)", text):
        name, _, value = part.partition("=")
        name = name.replace("-", "_")
        if not re.fullmatch(r"[a-z][a-z_]*", name) or not value:
            raise ConfigError(f'--slurm is "{text}"; expected options of sbatch, as in --slurm partition=gpu,gres=gpu:1,time=60')
        if name in settings:
            raise ConfigError(f"--slurm names {name} twice. Remove one of them.")
        settings[name] = int(value) if value.isdecimal() else True if value == "true" else value
    return settings


def expect_settings(settings: Mapping[str, Any]) -> None:
    minutes(settings.get("time", _MINUTES))
    if settings.get("cluster", "slurm") not in _EXECUTORS:
        raise ConfigError(f'cluster is "{settings["cluster"]}" in {option("slurm", "--slurm")}; choose slurm or local')


def minutes(time: Any) -> int:
    """Slurm's "MINUTES", "MINUTES:SECONDS", "HOURS:MINUTES:SECONDS", "DAYS-HOURS" …, rounded up."""
    found = _TIME.fullmatch(str(time))
    if found is None:
        raise ConfigError(f'time is "{time}" in {option("slurm", "--slurm")}; expected minutes, or a time such as 2:00:00')
    parts = [int(part) for part in found["parts"].split(":")]
    if found["days"] is not None:
        hours, minute, second = [*parts, 0, 0][:3]
    else:
        hours, minute, second = parts if len(parts) == 3 else [0, *parts, 0][:3]
    seconds = ((int(found["days"] or 0) * 24 + hours) * 60 + minute) * 60 + second
    return max(1, -(-seconds // 60))


class SubmititPool(RemotePool[Any]):
    """Jobs of submitit."""

    def __init__(self, folder: Path, threads: int, executor: Any) -> None:
        self._executor, self._submitit = executor, importlib.import_module("submitit")
        super().__init__(folder, threads)

    def _start(self, call: RemoteCall) -> Any:
        errors = self._submitit.core.utils
        try:
            return self._executor.submit(call)
        except (errors.UncompletedJobError, errors.FailedSubmissionError) as error:  # what sbatch says
            raise RunError(f"Slurm refused a job: {_one_line(error)}") from error

    def _ended(self, handles: Sequence[Any]) -> Sequence[Any]:
        ended = [job for job in handles if job.done()]
        if not ended:
            time.sleep(LOOK_EVERY)
        return ended

    def _outcome(self, handle: Any) -> Outcome:
        try:
            outcome: Outcome = handle.result()
        except self._submitit.core.utils.FailedJobError as error:
            raise RunError(f"a Slurm job failed: {_one_line(error)}. See {handle.paths.stderr}.") from error
        except self._submitit.core.utils.UncompletedJobError as error:
            raise Lost(f"{_one_line(error)}; see {handle.paths.stderr}") from error
        return outcome

    def _interrupt(self, handle: Any) -> None:
        if not handle.paths.stdout.exists():  # it waits in the queue; others see that the sign is gone
            handle.cancel(check=False)

    def _kill(self, handle: Any) -> None:
        handle.cancel(check=False)


def _one_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
