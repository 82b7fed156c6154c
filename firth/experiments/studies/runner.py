"""The runs of a study, several at a time: those that are finished are skipped, and those that were stopped go on.

Every run is a task of its own process and leaves its state in its folder, so it does not matter where it is computed: here, or
where another executor puts it. Each process has one thread, which makes results independent of how many run side by side.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Literal

from firth.errors import RunError
from firth.experiments.studies.plan import StudyJob
from firth.experiments.studies.trial import RunResult, read_result, run_job
from firth.text.threads import cores
from firth.training import log
from firth.training.folder import RunFolder

_LOOK_EVERY = 0.5  # seconds
_NICE = 10  # the machine stays usable
_PATIENCE = 60  # seconds that a worker may take to save its run


@dataclass(frozen=True)
class JobState:
    """How far a run is."""

    job: StudyJob
    phase: Literal["waiting", "running", "finished"]
    step: int = 0
    loss: float | None = None
    result: RunResult | None = None


Watch = Callable[[Sequence[JobState]], object]


def run_all(jobs: Sequence[StudyJob], workers: int | None, watch: Watch) -> dict[Path, RunResult]:
    """The result of every job, by its folder."""
    results = {job.folder: one for job in jobs if (one := finished(job)) is not None}
    waiting = [job for job in jobs if job.folder not in results]
    if waiting:
        at_once = min(workers or cores(), len(waiting))
        with _pool(at_once) as pool:
            _run(waiting, at_once, list(jobs), results, pool, watch)
    watch(_states(jobs, results, set()))
    return results


def finished(job: StudyJob) -> RunResult | None:
    """Its result, if it has one of this job: plan.expect_same has refused others."""
    return read_result(job.folder)


def _run(
    waiting: list[StudyJob], at_once: int, jobs: Sequence[StudyJob], results: dict[Path, RunResult], pool: Executor, watch: Watch
) -> None:
    running: dict[Future[RunResult], StudyJob] = {}
    while waiting or running:
        ready = [one for one in waiting if one.after is None or one.after in results]
        for job in ready[: at_once - len(running)]:
            waiting.remove(job)
            running[pool.submit(run_job, job)] = job
        ended, _ = wait(running, timeout=_LOOK_EVERY, return_when=FIRST_COMPLETED)
        for future in ended:
            job = running.pop(future)
            try:
                results[job.folder] = future.result()
            except BrokenProcessPool as error:
                raise RunError(
                    f"a process of the study was killed, perhaps because memory ran out ({job.name}). Run the same command "
                    "again to go on, with fewer --jobs."
                ) from error
        watch(_states(jobs, results, {job.folder for job in running.values()}))


def _states(jobs: Sequence[StudyJob], results: dict[Path, RunResult], submitted: set[Path]) -> list[JobState]:
    return [_state(job, results.get(job.folder), job.folder in submitted) for job in jobs]


def _state(job: StudyJob, result: RunResult | None, submitted: bool) -> JobState:
    if result is not None:
        return JobState(job, "finished", job.recipe.training.steps, result=result)
    lines = log.read(RunFolder(job.folder).log) if submitted else []
    if not lines:
        return JobState(job, "waiting")
    last = lines[-1]
    return JobState(job, "running", last["step"], last.get("loss"))


@contextlib.contextmanager
def _pool(workers: int) -> Iterator[Executor]:
    """Processes of this machine. However the context ends, they save their runs and end."""
    spawning = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads, which then do nothing
    stop = spawning.Event()
    pool = ProcessPoolExecutor(workers, mp_context=spawning, initializer=_begin, initargs=(stop, os.getpid()))
    try:
        yield pool
    except BaseException:  # Ctrl-C included
        stop.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(stop: Event, parent: int) -> None:
    """In a worker, before its first run."""
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the first one tells the others
    if hasattr(os, "nice"):
        os.nice(_NICE)
    threading.Thread(target=_end_with, args=(stop, parent), daemon=True).start()


def _end_with(stop: Event, parent: int) -> None:
    """End this process once the study is stopped or its first process is gone: a training saves, anything else may be lost."""
    while not stop.wait(_LOOK_EVERY) and os.getppid() == parent:
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PATIENCE)
    os._exit(1)
