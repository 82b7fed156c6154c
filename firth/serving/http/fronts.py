"""Fronts: the processes that handle HTTP, as the supervisor sees them. Each accepted connection goes to the next of them."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import socket
import threading
from collections.abc import Callable, Iterable, MutableSequence, Sequence
from multiprocessing.connection import Connection

from firth.decoding.engine.restarts import Pause
from firth.serving.http.errors import ApiError
from firth.serving.http.front import END, NUMBER, READ, READY, UNREAD, FrontSettings, count, run_front
from firth.serving.http.metrics import Metrics

_CHUNK = 1 << 16
_log = logging.getLogger("firth.serve")
_SPARE = 64  # connections that are closed, but not yet reported as closed
_JOIN = 10.0  # seconds that a process has to end when its pipe is closed


class HeldConnections:
    """The supervisor's copies of a front's connections, in case the front is killed; at most as many as there are
    `states`: states[number] says how far a connection is, and is written by the front."""

    def __init__(self, states: MutableSequence[int]) -> None:
        self._states = states
        self._clients: dict[int, socket.socket] = {}
        self._free = list(range(len(states)))

    def add(self, client: socket.socket) -> int | None:
        """The number of the connection; None if there are too many."""
        if not self._free:
            return None
        number = self._free.pop()
        self._states[number] = UNREAD
        self._clients[number] = client
        return number

    def give_back(self, number: int) -> socket.socket:
        self._free.append(number)
        return self._clients.pop(number)

    def close(self, numbers: Iterable[int] | None = None) -> None:
        """Close these connections; by default, all of them."""
        for number in list(self._clients) if numbers is None else numbers:
            if number in self._clients:
                self.give_back(number).close()

    def part(self, orphaned: Callable[[socket.socket], None]) -> list[socket.socket]:
        """Dispose of the connections of a killed front. Those without a request go to `orphaned`; those without a response get
        status 503 and are returned, to be closed a moment later, when their clients have read it."""
        refused = []
        for number, client in self._clients.items():
            if self._states[number] == UNREAD:
                orphaned(client)
            elif self._states[number] == READ:
                _refuse(client)
                refused.append(client)
            else:
                client.close()
        self._clients = {}
        return refused


def _refuse(client: socket.socket) -> None:
    response = ApiError(
        503, "the process that handled this request was stopped. Try again in a moment.", code="restarting"
    ).response()
    response.headers["connection"] = "close"
    headers = b"".join(name + b": " + value + b"\r\n" for name, value in response.raw_headers)
    client.setblocking(False)
    with contextlib.suppress(OSError):
        while client.recv(_CHUNK):  # closing a socket with unread input discards what was sent
            pass
    with contextlib.suppress(OSError):
        client.send(b"HTTP/1.1 503 Service Unavailable\r\n" + headers + b"\r\n" + bytes(response.body))
        client.shutdown(socket.SHUT_WR)


class Front:
    """One process, which is started again if it ends before `end`. `ready` is called whenever it is, and `orphaned` with each
    connection that it had and that another can have."""

    def __init__(
        self, settings: FrontSettings, metrics: Metrics, ready: Callable[[], None], orphaned: Callable[[socket.socket], None]
    ) -> None:
        self._settings, self._metrics, self._ready, self._orphaned = settings, metrics, ready, orphaned
        self._held = HeldConnections([])
        self._pipe: Connection | None = None
        self._clients: socket.socket | None = None  # where connections are handed over; None: it is not ready
        self._lock, self._ending = threading.Lock(), threading.Event()
        self._pause = Pause()
        self.failed: bool | None = None  # whether the first process ended before it was ready; None: not known yet
        self._thread = threading.Thread(target=self._run, name="firth-front", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hand_over(self, client: socket.socket) -> bool:
        """Pass the connection to the front and keep a copy; returns whether that worked."""
        with self._lock:
            if self._clients is None or (number := self._held.add(client)) is None:
                return False
            try:
                socket.send_fds(self._clients, [NUMBER.pack(number)], [client.fileno()])
            except OSError:
                self._held.give_back(number)
                return False
            return True

    def end(self) -> None:
        """End the process once its requests are answered."""
        self._ending.set()
        with self._lock, contextlib.suppress(OSError):
            if self._pipe is not None:
                self._pipe.send(END)

    def kill(self) -> None:
        self._ending.set()
        with self._lock:
            if self._pipe is not None:
                self._process.kill()

    @property
    def ready(self) -> bool:
        return self._clients is not None

    @property
    def lives(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        self._live()
        with self._lock:
            self._held.close()

    def _live(self) -> None:
        while not self._ending.is_set():
            code = None
            try:
                code = self._serve_once()
            except Exception:  # for example, no more processes are allowed
                _log.exception("a process that handles HTTP could not be started")
            if self._ending.is_set():
                return
            self.failed = self.failed is None
            if self.failed:
                return
            wait = self._pause.seconds()
            _log.error("a process that handles HTTP ended with %s; started again in %g s", code, wait)
            refused = self._held.part(self._orphaned)
            self._ending.wait(wait)
            for client in refused:
                client.close()

    def _serve_once(self) -> int | None:
        """The life of one process. Its exit code."""
        spawning = multiprocessing.get_context("spawn")
        (pipe, theirs), (clients, of_front) = spawning.Pipe(), socket.socketpair()
        clients.setblocking(False)
        states = spawning.RawArray("B", 2 * self._settings.limits.connection.total + _SPARE)
        process = spawning.Process(target=run_front, args=(self._settings, theirs, of_front, states), daemon=True)
        with self._lock:
            self._held = HeldConnections(states)
            process.start()
            self._process, self._pipe = process, pipe
        theirs.close()
        of_front.close()
        if self._ending.is_set():
            self.end()  # it was not there to be told
        with contextlib.suppress(EOFError, OSError):
            while True:
                said = pipe.recv()
                if said == READY:
                    self.failed = False
                    self._pause.began()
                    with self._lock:
                        self._clients = clients
                    self._ready()
                else:
                    with self._lock:
                        self._held.close(number for kind, number, *_ in said if kind == "closed")
                    count(said, self._metrics)
        with self._lock:
            self._pipe = self._clients = None
            clients.close()
            pipe.close()
        process.join(_JOIN)
        if process.is_alive():
            process.kill()
            process.join()
        for model in self._settings.models:
            if model.door is not None:
                model.door.counts.leave()
        return process.exitcode


class Fronts:
    """All of them."""

    def __init__(
        self,
        settings: Sequence[FrontSettings],
        metrics: Metrics,
        ready: Callable[[], None],
        orphaned: Callable[[socket.socket], None],
    ) -> None:
        self._fronts = [Front(one, metrics, ready, orphaned) for one in settings]
        self._next = 0

    def start(self) -> None:
        for front in self._fronts:
            front.start()

    def hand_over(self, client: socket.socket) -> bool:
        """To the next that is ready; False: none is."""
        for _ in self._fronts:
            self._next = (self._next + 1) % len(self._fronts)
            if self._fronts[self._next].hand_over(client):
                return True
        return False

    def end(self) -> None:
        for front in self._fronts:
            front.end()

    def kill(self) -> None:
        for front in self._fronts:
            front.kill()

    @property
    def all_ready(self) -> bool:
        return all(front.ready for front in self._fronts)

    @property
    def any_ready(self) -> bool:
        return any(front.ready for front in self._fronts)

    @property
    def failed(self) -> bool:
        return any(front.failed is True for front in self._fronts)

    @property
    def living(self) -> bool:
        return any(front.lives for front in self._fronts)
