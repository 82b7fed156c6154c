"""EngineClient: jobs for an engine in another process, and what comes back from it.

Jobs go to the engine through a connection, those of one turn of an event loop as one message. After a turn of the engine, what
the texts of this client have gained comes back as one message.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import MutableSequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Client, Connection
from multiprocessing.context import AuthenticationError
from typing import Any

from firth.decoding.engine.jobs import (
    Deliver,
    EngineClosed,
    EngineRestarts,
    Event,
    Finished,
    GeneratedToken,
    Job,
    JobLimits,
    QueueFull,
    Reason,
)

_log = logging.getLogger("firth.engine")
_AGAIN = 0.02  # seconds between two attempts to connect
_KINDS = _IN_WORK, _JOBS, _LOST, _APART = range(4)


class JobCounts:
    """The counters of an engine's clients, in shared memory: running jobs, all jobs, lost jobs, and whether the client has lost
    its connection. Each client writes only its own cells."""

    def __init__(self, cells: MutableSequence[int] | None = None, own: int = 0) -> None:
        self._cells = [0] * len(_KINDS) if cells is None else cells
        self._own = own * len(_KINDS)

    @staticmethod
    def size(clients: int) -> int:
        """The number of cells."""
        return clients * len(_KINDS)

    def of(self, client: int) -> JobCounts:
        return JobCounts(self._cells, client)

    def in_work(self) -> int:
        """The jobs of all clients."""
        return self._sum(_IN_WORK)

    def jobs(self) -> int:
        return self._sum(_JOBS)

    def lost(self) -> int:
        return self._sum(_LOST)

    def apart(self) -> int:
        """The clients without a connection."""
        return self._sum(_APART)

    def add(self, in_work: int) -> None:
        self._cells[self._own + _IN_WORK] = in_work
        self._cells[self._own + _JOBS] += 1

    def end(self, in_work: int, lost: bool) -> None:
        self._cells[self._own + _IN_WORK] = in_work
        self._cells[self._own + _LOST] += lost

    def connect(self, connected: bool) -> None:
        self._cells[self._own + _APART] = not connected

    def leave(self) -> None:
        """Record that the client is gone; its counts stay."""
        self._cells[self._own + _IN_WORK] = self._cells[self._own + _APART] = 0

    def _sum(self, kind: int) -> int:
        return sum(self._cells[kind :: len(_KINDS)])


@dataclass
class _InWork:
    job: Job
    deliver: Deliver
    ends: float  # when its time is over
    started: bool = False  # it has delivered something
    again: bool = False  # it was given to a second engine; it may be what ends them
    cancelled: bool = False

    @property
    def may_wait(self) -> bool:
        """True if the job can be sent to the next engine, because it has not started."""
        return not (self.started or self.again or self.cancelled)


class ProcessTicket:
    """A job of an engine in another process."""

    def __init__(self, client: EngineClient, number: int) -> None:
        self._client, self._number = client, number

    def cancel(self) -> None:
        """Cancel the job, at any time and from any thread; its memory is free a moment later."""
        self._client._cancel(self._number)


class EngineClient(ABC):
    """The interface of `Engine`, for an engine in another process. If the connection ends before `close`, it is made again. Jobs
    that have not started wait for that once; the others end as "lost". The queue's bound counts the jobs of all clients."""

    def __init__(self, limits: JobLimits, slots: int, queue: int, counts: JobCounts) -> None:
        self.limits, self.slots, self.queue, self._counts = limits, slots, queue, counts
        self._lock, self._sending = threading.Lock(), threading.Lock()
        self._jobs: dict[int, _InWork] = {}
        self._submitted = 0
        self._outgoing: deque[tuple[Any, ...]] = deque()
        self._planned: asyncio.AbstractEventLoop | None = None  # the loop that will send them
        self._pipe: Connection | None = None
        self._open, self._closing = False, threading.Event()
        self._thread: threading.Thread | None = None
        self._facts: dict[str, int | float] = {}

    @abstractmethod
    def _connect(self) -> bool:
        """Connect again after the connection has ended; False if the engine is closed."""

    @abstractmethod
    def close(self, drain: bool = True, seconds: float | None = None) -> None: ...

    def start(self) -> None:
        self._thread = threading.Thread(target=self._listen, name="firth-engine-client", daemon=True)
        self._thread.start()

    def submit(self, job: Job, deliver: Deliver) -> ProcessTicket:
        """As `Engine.submit`; `deliver` is called in a thread of this process."""
        self.limits.check(job)
        with self._lock:
            if self._closing.is_set():
                raise EngineClosed("the engine is closed and accepts no more requests")
            if not self._open:
                raise EngineRestarts("the engine is being started again. Try again later.")
            waiting = self._counts.in_work() - self.slots
            if waiting >= self.queue:
                raise QueueFull(f"{waiting} requests are waiting already. Try again later.")
            self._submitted += 1
            number = self._submitted
            ends = math.inf if job.seconds is None else time.monotonic() + job.seconds
            self._jobs[number] = _InWork(job, deliver, ends)
            self._counts.add(len(self._jobs))
            self._outgoing.append(("submit", number, job))
        self._send_soon()
        return ProcessTicket(self, number)

    @property
    def ready(self) -> bool:
        return self._open

    def facts(self) -> dict[str, int | float]:
        return self._facts

    def _cancel(self, number: int) -> None:
        with self._lock:
            one = self._jobs.get(number)
            if one is None:
                return
            one.cancelled = True
            if is_open := self._open:
                self._outgoing.append(("cancel", number))
        if is_open:
            self._send_soon()
        else:
            self._deliver(number, [Finished("cancelled")])  # it waits for the next engine

    def _send_soon(self) -> None:
        """Send once the event loop is idle, so that the jobs of many requests share a message; without a loop, send at once."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._send()
            return
        if self._planned is not loop:
            self._planned = loop
            loop.call_soon(self._send)

    def _send(self) -> None:
        with self._sending:
            self._planned = None
            messages = [self._outgoing.popleft() for _ in range(len(self._outgoing))]
            if messages and self._pipe is not None:
                with contextlib.suppress(OSError):  # a process that has ended hears nothing; `_listen` knows
                    self._pipe.send(messages)

    def _connected(self, pipe: Connection) -> None:
        now, late = time.monotonic(), list[int]()
        with self._sending, self._lock:
            self._pipe, self._open = pipe, True
            for number, one in self._jobs.items():
                one.again = True
                if one.ends <= now:
                    late.append(number)
                else:
                    left = None if one.job.seconds is None else one.ends - now
                    self._outgoing.append(("submit", number, replace(one.job, seconds=left)))
        self._counts.connect(True)
        self._send()
        for number in late:
            self._deliver(number, [Finished("timeout")])

    def _listen(self) -> None:
        """Deliver the engine's messages, and reconnect if the connection ends unexpectedly."""
        while True:
            try:
                if self._pipe is None:
                    raise EOFError
                rows, facts = self._pipe.recv()
            except (EOFError, OSError):
                self._give_up()
                if not self._connect():
                    self._end_all("cancelled")
                    return
                continue
            if facts is not None:
                self._facts = facts
            for number, written, last in rows:
                events: list[Event] = [GeneratedToken(*one) for one in written]
                self._deliver(number, [*events, Finished(*last)] if last is not None else events)

    def _deliver(self, number: int, events: list[Event]) -> None:
        with self._lock:
            one = self._jobs.get(number)
            if one is None:
                return
            one.started = True
            if isinstance(last := events[-1], Finished):
                del self._jobs[number]
                self._counts.end(len(self._jobs), last.reason == "lost")
        try:
            one.deliver(events)
        except Exception:
            _log.exception("events could not be delivered")
            self._cancel(number)

    def _give_up(self) -> None:
        """End the jobs that have started, because the connection is lost."""
        with self._sending, self._lock:
            if self._pipe is None:
                return  # there was none yet
            self._open, self._pipe = False, None
            self._outgoing.clear()
        self._counts.connect(False)
        if self._closing.is_set():
            self._end_all("cancelled")
        for number, one in list(self._jobs.items()):
            if not one.may_wait:
                self._deliver(number, [Finished("cancelled" if one.cancelled else "lost")])

    def _end_all(self, reason: Reason) -> None:
        for number in list(self._jobs):
            self._deliver(number, [Finished(reason)])


@dataclass(frozen=True)
class EngineDoor:
    """The Unix-domain socket through which other processes submit jobs to an engine."""

    address: str
    key: bytes
    limits: JobLimits
    slots: int
    queue: int
    counts: JobCounts


class EngineConnection(EngineClient):
    """An engine that another process has started."""

    def __init__(self, door: EngineDoor) -> None:
        super().__init__(door.limits, door.slots, door.queue, door.counts)
        self._door = door

    def close(self, drain: bool = True, seconds: float | None = None) -> None:
        """Cancel the running jobs of this client; the engine continues to serve others."""
        self._closing.set()
        with self._sending:
            if self._pipe is not None:
                with socket.socket(fileno=os.dup(self._pipe.fileno())) as same, contextlib.suppress(OSError):
                    same.shutdown(socket.SHUT_RDWR)  # `close` would not wake the thread that reads
        if self._thread is not None:
            self._thread.join()

    def _connect(self) -> bool:
        while not self._closing.wait(_AGAIN):
            with contextlib.suppress(OSError, EOFError, AuthenticationError):  # it is being started
                self._connected(Client(self._door.address, "AF_UNIX", authkey=self._door.key))
                return True
        return False
