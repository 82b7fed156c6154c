"""An Executor whose tasks run on other machines. A kind of cluster says how to start a task there, and what became of it."""

from __future__ import annotations

import threading
import time
import uuid
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from firth import files
from firth.errors import FirthError, RunError
from firth.experiments.clusters.pulse import Pulse
from firth.experiments.clusters.remote_call import Outcome, RemoteCall, Site
from firth.experiments.workers import PATIENCE

H = TypeVar("H")  # what the cluster knows a task by

LOOK_EVERY = 0.5  # seconds
TRIES = 5  # of a task whose machine dies


class Lost(Exception):
    """A task that ended without an outcome, because its process or its machine did."""


@dataclass(eq=False)
class _Task(Generic[H]):
    call: RemoteCall
    future: Future[Any]
    handle: H
    losses: int = 0


class RemotePool(Executor, Generic[H]):
    """Hands tasks out again whose machine died, or which were stopped there: they go on from their checkpoints."""

    def __init__(self, folder: Path, threads: int) -> None:
        """`folder`: that of the runs, which all machines share."""
        with files.writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._sign = Pulse(folder.absolute() / f"{files.TEMPORARY}cluster-{uuid.uuid4().hex}")
        self._site = Site.here(self._sign.path, threads)
        self._lock = threading.Lock()
        self._tasks: list[_Task[H]] = []
        self._stopping, self._closing = False, False
        self._collector = threading.Thread(target=self._collect, name="collector", daemon=True)
        self._collector.start()

    @abstractmethod
    def _start(self, call: RemoteCall) -> H: ...

    @abstractmethod
    def _ended(self, handles: Sequence[H]) -> Sequence[H]:
        """Those that have ended, after waiting for LOOK_EVERY seconds at most."""

    @abstractmethod
    def _outcome(self, handle: H) -> Outcome:
        """The outcome of a task that has ended; may raise Lost."""

    @abstractmethod
    def _interrupt(self, handle: H) -> None:
        """Stop a task after it has saved its run. Afterwards the sign is removed."""

    @abstractmethod
    def _kill(self, handle: H) -> None:
        """End a task that does not stop."""

    def submit(self, task: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self._hand_out(RemoteCall.of(self._site, task, *given, **named), future)
        return future

    def stop(self) -> None:
        """Stop all tasks, after they have saved their runs."""
        with self._lock:
            self._stopping = True
            tasks = list(self._tasks)
        for task in tasks:
            self._interrupt(task.handle)
        self._sign.end()
        end = time.monotonic() + PATIENCE
        while self._tasks and time.monotonic() < end:
            time.sleep(LOOK_EVERY / 5)
        for task in list(self._tasks):
            self._kill(task.handle)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._closing = True
        self._collector.join()
        self._sign.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if error is not None:  # Ctrl-C included
                self.stop()
        finally:
            self.shutdown()

    def _hand_out(self, call: RemoteCall, future: Future[Any], losses: int = 0) -> None:
        with self._lock:
            if self._stopping:
                future.set_exception(CancelledError())
            else:
                self._tasks.append(_Task(call, future, self._start(call), losses))

    def _collect(self) -> None:
        while not self._closing:
            tasks = list(self._tasks)
            if not tasks:
                time.sleep(LOOK_EVERY / 5)
                continue
            try:
                ended = self._ended([task.handle for task in tasks])
                for task in tasks:
                    if task.handle in ended:
                        self._settle(task)
            except BaseException as error:  # of the cluster: nobody would hear of the tasks again
                for task in tasks:
                    if not task.future.done():
                        task.future.set_exception(error)
                self._tasks = []
                return

    def _settle(self, task: _Task[H]) -> None:
        try:
            outcome = self._outcome(task.handle)
        except Lost as error:
            if task.losses + 1 < TRIES or self._stopping:
                self._hand_out(task.call, task.future, task.losses + 1)
            else:
                task.future.set_exception(_lost(error))
        except FirthError as error:
            task.future.set_exception(error)
        else:
            if outcome.stopped:
                self._hand_out(task.call, task.future, task.losses)
            elif outcome.error is not None:
                task.future.set_exception(outcome.error)
            else:
                task.future.set_result(outcome.value)
        self._tasks.remove(task)


def _lost(error: Lost) -> RunError:
    return RunError(f"a run was lost {TRIES} times, last because {error}. Its checkpoints are kept: run the command again.")
