"""EngineProcess: an engine in a process of its own.

On a GPU a step takes less than a millisecond, about as long as Python needs to read an HTTP request. In one process, only one of
the two can run at a time. Here the engine has an interpreter for itself: jobs go to it through a pipe, and after each turn what
all texts have gained comes back as one message. Both processes use the same memory for the weights.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import pickle
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.multiprocessing

from firth.decoding.engine import Engine
from firth.decoding.jobs import (
    COUNTED,
    ENDS,
    Deliver,
    EngineClosed,
    EngineRestarts,
    Event,
    Finished,
    Job,
    JobLimits,
    QueueFull,
    Reason,
    Ticket,
    Written,
)
from firth.errors import ConfigError, FirthError
from firth.models import LanguageModel

_log = logging.getLogger("firth.engine")
_LEAST, _MOST = 0.5, 60.0  # seconds until a process that ended is started again; twice as many each time
_STEADY = 60.0  # seconds after which a process is thought to work
_JOIN = 10.0  # seconds that it has to end when its pipe is closed
_READY = "ready"


@dataclass(frozen=True)
class _Settings:
    slots: int
    capacity: int | None
    queue: int
    threads: int


class ProcessTicket:
    """A job of an engine in another process."""

    def __init__(self, engine: EngineProcess, number: int) -> None:
        self._engine, self._number = engine, number

    def cancel(self) -> None:
        """At any time, from any thread; the memory is free a moment later."""
        self._engine._send(("cancel", self._number))


class EngineProcess:
    """As `Engine`. If the process ends before `close`, the jobs in work end as "lost" and it is started again."""

    def __init__(self, network: LanguageModel, slots: int = 16, capacity: int | None = None, queue: int = 256) -> None:
        self.network, self.slots, self.queue = network, slots, queue
        self.capacity = min((limit for limit in (capacity, network.context) if limit is not None), default=None)
        self.limits = JobLimits(network.vocab, network.context, self.capacity)
        self._settings = _Settings(slots, capacity, queue, torch.get_num_threads())
        self._lock = threading.Lock()
        self._delivering: dict[int, Deliver] = {}  # the jobs in work
        self._submitted = self._lost = 0
        self._facts: dict[str, int | float] = {}
        self._past: Counter[str] = Counter()  # what earlier processes have counted
        self._pipe: Connection | None = None
        self._open, self._closing = False, threading.Event()
        self._began, self._wait = 0.0, _LEAST
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Returns when the engine is ready."""
        self._launch()
        self._thread = threading.Thread(target=self._listen, name="firth-engine-process", daemon=True)
        self._thread.start()

    def close(self, drain: bool = True, seconds: float | None = None) -> None:
        """As `Engine.close`."""
        with self._lock:
            self._open = False
        self._closing.set()
        self._send(("close", drain, seconds))
        if self._thread is not None:
            self._thread.join()

    def submit(self, job: Job, deliver: Deliver) -> ProcessTicket:
        """As `Engine.submit`; `deliver` is called in a thread of this process."""
        self.limits.check(job)
        with self._lock:
            if self._closing.is_set():
                raise EngineClosed("the engine is closed and accepts no more requests")
            if not self._open:
                raise EngineRestarts("the engine is being started again. Try again later.")
            waiting = len(self._delivering) - self.slots
            if waiting >= self.queue:
                raise QueueFull(f"{waiting} requests are waiting already. Try again later.")
            self._submitted += 1
            number = self._submitted
            self._delivering[number] = deliver
        self._send(("submit", number, job))
        return ProcessTicket(self, number)

    def facts(self) -> dict[str, int | float]:
        """As `Engine.facts`. Texts that wait and run are counted here: the engine's own numbers are those of its last turn."""
        last, past = self._facts, self._past
        counted = {name: last.get(name, 0) + past[name] for name in (*COUNTED, *ENDS)}
        running = min(self.slots, len(self._delivering))
        now = {"running": running, "reading": last.get("reading", 0), "waiting": len(self._delivering) - running}
        own = {"jobs": self._submitted, "lost": self._lost}
        sizes = {"slots": self.slots, "capacity": self.capacity or 0, "queue": self.queue}
        return {**now, **sizes, **counted, **own}

    @property
    def ready(self) -> bool:
        return self._open

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def _launch(self) -> None:
        spawning = torch.multiprocessing.get_context("spawn")  # CUDA cannot be used after a fork
        self._pipe, theirs = spawning.Pipe()
        self._process = spawning.Process(target=_work, args=(theirs, self._settings), daemon=True)
        self._process.start()
        theirs.close()
        try:
            self._pipe.send(self.network)
            said = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            raise FirthError(f"the process of the engine ended with {self._process.exitcode} before it was ready") from None
        if said != _READY:
            raise ConfigError(said)
        self._began = time.monotonic()
        with self._lock:
            self._open = True

    def _send(self, message: tuple[Any, ...]) -> None:
        if self._pipe is None:
            return  # never started
        with contextlib.suppress(OSError), self._lock:  # a process that has ended hears nothing; `_listen` knows
            self._pipe.send(message)

    def _listen(self) -> None:
        """Hand over what comes from the engine, and start it again if it ends without being asked to."""
        assert self._pipe is not None
        while True:
            try:
                rows, self._facts = self._pipe.recv()
            except (EOFError, OSError):
                self._give_up()
                if not self._start_again():
                    return
                continue
            for number, written, last in rows:
                events: list[Event] = [Written(*one) for one in written]
                self._deliver(number, [*events, Finished(*last)] if last is not None else events)

    def _deliver(self, number: int, events: list[Event]) -> None:
        deliver = self._delivering.get(number)
        if deliver is None:
            return
        if isinstance(events[-1], Finished):
            del self._delivering[number]
        try:
            deliver(events)
        except Exception:
            _log.exception("events could not be delivered")
            self._send(("cancel", number))

    def _give_up(self) -> None:
        """The process has ended, and with it the jobs in work."""
        with self._lock:
            self._open = False
        reason: Reason = "cancelled" if self._closing.is_set() else "lost"
        for number in list(self._delivering):
            self._lost += reason == "lost"
            self._deliver(number, [Finished(reason)])
        self._past.update({name: int(self._facts.get(name, 0)) for name in (*COUNTED, *ENDS)})
        self._facts = {}

    def _start_again(self) -> bool:
        """Whether there is another process now; False: the engine is closed. One that ends soon is started after a while."""
        while True:
            self._process.join(_JOIN)
            if self._closing.is_set():
                return False
            self._wait = min(_MOST, 2 * self._wait) if time.monotonic() - self._began < _STEADY else _LEAST
            _log.error("the process of the engine ended with %s; started again in %g s", self._process.exitcode, self._wait)
            if self._closing.wait(self._wait):
                return False
            try:
                self._launch()
            except FirthError as error:
                _log.error("%s", error)
            else:
                return True


class _Jobs:
    """The jobs in work in the process of the engine, and what their texts have gained in this turn: (number of the job,
    (id, log-probability, top) of each token, (reason, error) of the end). Tuples, because each step is a message."""

    def __init__(self, pipe: Connection, engine: Engine) -> None:
        self._pipe, self._engine = pipe, engine
        self._tickets: dict[int, Ticket] = {}
        self._rows: list[tuple[Any, ...]] = []
        self._lock = threading.Lock()

    def submit(self, number: int, job: Job) -> None:
        with self._lock:  # a job that has ended at once waits here, to be forgotten after it is known
            self._tickets[number] = self._engine.submit(job, partial(self._put, number))

    def cancel(self, number: int) -> None:
        with self._lock:
            ticket = self._tickets.get(number)
        if ticket is not None:
            ticket.cancel()

    def _put(self, number: int, events: list[Event]) -> None:
        """In the engine's thread."""
        written = [(one.id, one.log_probability, one.top) for one in events if isinstance(one, Written)]
        end, last = None, events[-1]
        if isinstance(last, Finished):
            end = last.reason, last.error
            with self._lock:
                del self._tickets[number]
        self._rows.append((number, written, end))

    def send(self) -> None:
        """In the engine's thread, after each turn."""
        message = pickle.dumps((self._rows, self._engine.facts()), pickle.HIGHEST_PROTOCOL)
        self._rows = []
        with contextlib.suppress(OSError):  # nobody reads: the main thread hears it, too
            self._pipe.send_bytes(message)


def _work(pipe: Connection, settings: _Settings) -> None:
    """The process of the engine."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the process that serves decides when the jobs are finished
    torch.set_num_threads(settings.threads)
    _take_jobs(pipe, settings)
    gc.collect()  # of shared memory on a GPU, its owner wants to know that nobody uses it any more


def _take_jobs(pipe: Connection, settings: _Settings) -> None:
    """First comes the model, then come jobs, until the pipe is closed at the other end."""
    try:
        engine = Engine(pipe.recv(), settings.slots, settings.capacity, queue=settings.slots + settings.queue)
        jobs = _Jobs(pipe, engine)
        engine.start(jobs.send)
    except Exception as error:
        pipe.send(f"the engine could not be started: {type(error).__name__}: {error}")
        return
    pipe.send(_READY)
    with contextlib.suppress(EOFError, OSError):
        while True:
            match pipe.recv():
                case "submit", number, job:
                    jobs.submit(number, job)
                case "cancel", number:
                    jobs.cancel(number)
                case "close", drain, seconds:
                    engine.close(drain, seconds)
                    return
    os._exit(1)  # the process that serves is gone, and nobody waits for the texts
