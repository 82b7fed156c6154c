"""The process of an engine: it takes jobs from the process that started it, and from others that connect to it."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import socket
import struct
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, Listener
from multiprocessing.context import AuthenticationError
from typing import Any

import torch

from firth.decoding.engine.engine import Engine
from firth.decoding.engine.jobs import EngineClosed, Event, Finished, GeneratedToken, Job, Ticket
from firth.decoding.sampling.rows import TextSoFar
from firth.errors import FirthError
from firth.text.tokenizers.tokenizer import Tokenizer

READY = "ready"
_PACE = 0.0004  # seconds per job between two messages to a client, as in serving/http/dispatcher.py
_PATIENCE = 2.0  # seconds
_FACTS = 0.05  # seconds between two messages that have nothing but facts


@dataclass(frozen=True)
class EngineSettings:
    slots: int
    capacity: int | None
    threads: int
    door: tuple[str, bytes] | None = None  # address and key for other processes
    tokenizer: Tokenizer | None = None


class _Jobs:
    """The jobs of one client, and the events since its last message: (number of the job, (id, log-probability, top) of each
    token, (reason, error) of the end). Tuples, because each step may be a message."""

    def __init__(self, pipe: Connection, engine: Engine, pace: float = 0.0) -> None:
        self._pipe, self._engine, self._pace = pipe, engine, pace
        self._tickets: dict[int, Ticket] = {}
        self._begun: set[int] = set()
        self._rows: list[tuple[Any, ...]] = []
        self._urgent, self._last = False, 0.0
        self._lock = threading.Lock()

    def take(self) -> Sequence[Any] | None:
        """Receive jobs until the engine is to be closed; returns the arguments of `close`, or None if the client has left."""
        with contextlib.suppress(EOFError, OSError, EngineClosed):
            while True:
                for message in self._pipe.recv():
                    match message:
                        case "submit", number, job:
                            self._submit(number, job)
                        case "cancel", number:
                            self._cancel(number)
                        case "close", *how:
                            return how
        return None

    def cancel_all(self) -> None:
        with self._lock:
            tickets = list(self._tickets.values())
        for ticket in tickets:
            ticket.cancel()

    def _submit(self, number: int, job: Job) -> None:
        text: TextSoFar | FirthError
        try:
            text = self._engine.text(job)
        except FirthError as error:
            text = error
        with self._lock:  # a job that has ended at once waits here, to be forgotten after it is known
            self._tickets[number] = self._engine.submit(job, partial(self._put, number), text)

    def _cancel(self, number: int) -> None:
        with self._lock:
            ticket = self._tickets.get(number)
        if ticket is not None:
            ticket.cancel()

    def _put(self, number: int, events: list[Event]) -> None:
        """In the engine's thread."""
        written = [(one.id, one.log_probability, one.top) for one in events if isinstance(one, GeneratedToken)]
        end, last = None, events[-1]
        if number not in self._begun:
            self._begun.add(number)
            self._urgent = True
        if isinstance(last, Finished):
            end = last.reason, last.error
            self._urgent = True
            self._begun.discard(number)
            with self._lock:
                del self._tickets[number]
        self._rows.append((number, written, end))

    def due(self, now: float) -> bool:
        """True if a message should be sent now: the start and end of a text do not wait."""
        return bool(self._rows) and (self._urgent or now - self._last >= self._pace * len(self._begun))

    def send(self, now: float, facts: dict[str, int | float] | None = None) -> None:
        """Send the events since the last message; called in the engine's thread."""
        message = pickle.dumps((self._rows, facts), pickle.HIGHEST_PROTOCOL)
        self._rows, self._urgent, self._last = [], False, now
        try:
            self._pipe.send_bytes(message)
        except OSError:  # nobody reads, and half a message may have gone: the thread that takes the jobs hears the end
            with contextlib.suppress(OSError), _socket_of(self._pipe) as same:
                same.shutdown(socket.SHUT_RDWR)


class _Clients:
    """The clients of the engine: the process that started it, which also receives the engine's facts, and others."""

    def __init__(self, engine: Engine, owner: Connection) -> None:
        self._engine, self.owner = engine, _Jobs(owner, engine)
        self._others: list[_Jobs] = []
        self._told = 0.0

    def admit(self, pipe: Connection) -> None:
        _set_patience(pipe)
        jobs = _Jobs(pipe, self._engine, _PACE)
        self._others.append(jobs)
        threading.Thread(target=self._serve, args=(jobs,), daemon=True).start()

    def _serve(self, jobs: _Jobs) -> None:
        jobs.take()
        self._others.remove(jobs)
        jobs.cancel_all()

    def send(self) -> None:
        """Send one message to each client; called in the engine's thread after each turn."""
        now = time.monotonic()
        for jobs in list(self._others):  # clients come and go
            if jobs.due(now):
                jobs.send(now)
        if self.owner.due(now) or now - self._told >= _FACTS or not self._engine.busy:
            self._told = now
            self.owner.send(now, self._engine.facts())


def work(pipe: Connection, settings: EngineSettings) -> None:
    """The main function of the process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the process that serves decides when the jobs are finished
    torch.set_num_threads(settings.threads)
    _take_jobs(pipe, settings)
    gc.collect()  # of shared memory on a GPU, its owner wants to know that nobody uses it any more


def _take_jobs(pipe: Connection, settings: EngineSettings) -> None:
    """Receive the model, then jobs, until the other end closes the pipe. The clients bound the queue."""
    try:
        engine = Engine(pipe.recv(), settings.slots, settings.capacity, queue=sys.maxsize, tokenizer=settings.tokenizer)
        clients = _Clients(engine, pipe)
        engine.start(clients.send)
        if settings.door is not None:
            admitting = _listener(*settings.door), weakref.ref(clients)
            threading.Thread(target=_admit_all, args=admitting, daemon=True).start()
    except Exception as error:
        pipe.send(f"the engine could not be started: {type(error).__name__}: {error}")
        return
    pipe.send(READY)
    how = clients.owner.take()
    if how is None:
        os._exit(1)  # the process that serves is gone, and nobody waits for the texts
    engine.close(*how)


def _admit_all(listener: Listener, clients: weakref.ref[_Clients]) -> None:
    """Accept clients, in a thread that holds no reference to the engine, so that its memory is freed at the end."""
    while True:
        try:
            pipe = listener.accept()
        except (OSError, EOFError, AuthenticationError):
            continue
        here = clients()
        if here is None:
            return
        here.admit(pipe)
        del here


def _set_patience(pipe: Connection) -> None:
    """Limit the time that a client that reads nothing can block the engine; its connection then ends."""
    with _socket_of(pipe) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", *divmod(int(_PATIENCE * 1e6), 1_000_000)))


def _socket_of(pipe: Connection) -> socket.socket:
    return socket.socket(fileno=os.dup(pipe.fileno()))


def _listener(address: str, key: bytes) -> Listener:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(address)  # left by a process that was killed
    return Listener(address, "AF_UNIX", backlog=64, authkey=key)
