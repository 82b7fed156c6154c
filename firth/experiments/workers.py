"""Processes that train runs side by side, and how far each run is.

A run leaves its state in its folder, so it does not matter which process trains it, and whoever wants to know how far it is
reads its log. However the processes end, they save their runs first.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

from firth import ideas
from firth.errors import Interrupted, RunError
from firth.training import log
from firth.training.folder import RunFolder

K = TypeVar("K")
R = TypeVar("R")

_LOOK_EVERY = 0.5  # seconds
NICE = 10  # the machine stays usable
PATIENCE = 600  # seconds that a worker may take to save its run: one that is validating ends that first
_AT_WORK = threading.Lock()  # held by this process while it works on a task
_ENDING = threading.Event()  # set once this process has told itself to stop


@dataclass(frozen=True)
class RunProgress:
    """How far a run is."""

    name: str  # as tables show it
    phase: Literal["waiting", "running", "finished"]
    steps: int  # of the whole training
    step: int = 0  # reached so far
    loss: float | None = None  # of training
    result: str = ""  # what a finished run gave


Watch = Callable[[Sequence[RunProgress]], object]


def running(name: str, folder: Path, steps: int) -> RunProgress:
    """How far the run in `folder` is, from its log, which may also say how many steps there are."""
    lines = log.read(RunFolder(folder).log)
    if not lines:
        return RunProgress(name, "waiting", steps)
    last = lines[-1]
    return RunProgress(name, "running", last.get("of", steps), last["step"], last.get("loss"))


@dataclass
class Workers(Generic[K]):
    """Tasks in processes, each known by its key."""

    at_once: int  # the number of processes
    pool: Executor
    tasks: dict[Future[Any], K] = field(default_factory=dict)  # those that are not finished

    @property
    def free(self) -> int:
        """Processes without a task."""
        return self.at_once - len(self.tasks)

    def start(self, key: K, task: Callable[..., Any], *given: Any) -> None:
        self.tasks[self.pool.submit(_work_on, task, *given)] = key

    def ended(self) -> list[tuple[K, Any]]:
        """The tasks that have ended since the last call, with what they returned; waits a moment for the next one. An error in a
        task is raised here."""
        done, _ = wait(self.tasks, timeout=_LOOK_EVERY, return_when=FIRST_COMPLETED)
        return [(self.tasks.pop(one), _outcome(one)) for one in list(self.tasks) if one in done]

    def work(
        self,
        ready: Callable[[int], Sequence[K]],
        task: Callable[[K], R],
        done: Callable[[K, R], object],
        look: Callable[[], object],
    ) -> None:
        """Run `task` on every key until `ready`, which is called with the number of free processes, returns none. `done` gets
        what a task returned, and `look` is called about twice a second."""
        while True:
            for key in ready(self.free):
                self.start(key, task, key)
            if not self.tasks:
                return
            for key, returned in self.ended():
                done(key, returned)
            look()


class Cluster(Protocol):
    """Machines that train runs."""

    def pool(self, jobs: int | None, most: int, threads: int, folder: Path) -> AbstractContextManager[tuple[int, Executor]]:
        """How many of at most `most` tasks run at a time, `jobs` if that is given, and the Executor that runs them. `folder` is
        the one they write to."""


@contextlib.contextmanager
def remarks() -> Iterator[list[str]]:
    """The warnings for users in this context, each once, instead of on stderr, where they would tear the table of all runs."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield told
        finally:
            told += dict.fromkeys(str(one.message) for one in caught if one.category is UserWarning)


def _work_on(task: Callable[..., R], *given: Any) -> R:
    with _AT_WORK:
        return task(*given)


def _outcome(task: Future[Any]) -> Any:
    try:
        return task.result()
    except BrokenProcessPool as error:
        raise RunError(
            "a process that trains was killed, perhaps because memory ran out. Run the command again with fewer jobs."
        ) from error


@contextlib.contextmanager
def workers_on(cluster: Cluster | None, folder: Path, jobs: int | None, most: int, usual: int) -> Iterator[Workers[Any]]:
    """Processes with one thread each for at most `most` tasks, which write to `folder`: those of a cluster, or of this machine.
    There are `jobs` of them; unless that is given, `usual` on this machine and as many as a cluster has room for."""
    if cluster is None:
        with workers(min(jobs or usual, most)) as here:
            yield here
    else:
        with cluster.pool(jobs, most, 1, folder) as (at_once, pool):
            yield Workers(at_once, pool)


@contextlib.contextmanager
def workers(at_once: int, threads: int = 1) -> Iterator[Workers[Any]]:
    """Processes of this machine with so many threads each. With one, results do not depend on how many run side by side."""
    spawning = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads, which then do nothing
    stop = spawning.Event()
    pool = ProcessPoolExecutor(at_once, mp_context=spawning, initializer=_begin, initargs=(stop, os.getpid(), threads))
    try:
        yield Workers(at_once, pool)
    except BaseException:  # Ctrl-C included
        stop.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(stop: Event, parent: int, threads: int) -> None:
    """In a process, before its first task."""
    import torch

    torch.set_num_threads(threads)
    ideas.use_installed()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the first one tells the others
    signal.signal(signal.SIGTERM, _end_task)
    if hasattr(os, "nice"):
        os.nice(NICE)
    threading.Thread(target=_end_with, args=(stop, parent), daemon=True).start()


def _end_task(number: int, frame: object) -> None:
    """SIGTERM outside a training, which saves first: it ends the task. A process that dies instead, perhaps while it sends a
    result, makes the pool kill the others, which may be saving."""
    if _AT_WORK.locked():
        raise Interrupted("stopped while it was not training", number)
    if not _ENDING.is_set():  # the pool is broken: another process was killed
        threading.Thread(target=_leave, daemon=True).start()


def _leave() -> None:
    time.sleep(_LOOK_EVERY)  # a result may be on its way
    os._exit(1)


def _end_with(stop: Event, parent: int) -> None:
    """End this process once it shall stop or its parent is gone: a training saves, anything else may be lost."""
    while not stop.wait(_LOOK_EVERY) and os.getppid() == parent:
        pass
    _ENDING.set()
    os.kill(os.getpid(), signal.SIGTERM)
    if os.getppid() == parent:  # it will say that there are no more tasks
        time.sleep(PATIENCE)
    else:
        _AT_WORK.acquire(timeout=PATIENCE)
    os._exit(1)
