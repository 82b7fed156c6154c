"""The supervisor: the process with the models, if several others handle HTTP. It accepts the connections of clients and hands
them over; what the others do not answer themselves, they ask it through a Unix-domain socket."""

from __future__ import annotations

import asyncio
import copy
import secrets
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from firth.decoding.engine.client import EngineDoor
from firth.decoding.engine.process import EngineProcess
from firth.errors import ConfigError, FirthError
from firth.serving.http.app import build
from firth.serving.http.front import SOCKET, FrontModel, FrontSettings
from firth.serving.http.fronts import Fronts
from firth.serving.http.keys import Keys
from firth.serving.http.limits import Limits
from firth.serving.http.metrics import Metrics
from firth.serving.http.models import Models
from firth.serving.http.server import Server, configured_inside, for_many_requests
from firth.tasks.run import Run
from firth.text.threads import cores

_MOST = 8  # processes that handle HTTP, unless asked for
_AT_ONCE = 64  # connections that are accepted before other work is done
_ORPHANS = 1024  # connections that wait for a front
_REST = 0.5  # seconds until the next attempt to accept connections, if one failed
_LONGEST = 80  # characters of a folder of sockets: the path of a socket has about 100
_GRACE = 5.0  # seconds that a front may take longer than it should, to end


def serve_by_fronts(
    models: Models,
    listener: socket.socket,
    *,
    processes: int,
    limits: Limits,
    keys: Keys,
    drain: float,
    ready: Callable[[], None],
    draining: Callable[[], None],
) -> None:
    """As `serve`, with so many `processes` that handle HTTP. The engines must be processes, too."""
    metrics = Metrics(models.facts)
    place = None if len(tempfile.gettempdir()) < _LONGEST else "/tmp"
    with tempfile.TemporaryDirectory(prefix="firth-", dir=place, ignore_cleanup_errors=True) as folder:
        of_fronts = [
            FrontSettings(own, limits.shared(processes), keys, drain, Path(folder))
            for own in _front_models(models, Path(folder), processes)
        ]
        config = configured_inside(build(models, limits, keys, metrics), drain, Path(folder) / SOCKET)
        server = _Supervisor(config, listener, ready, draining, drain)
        fronts = server.fronts = Fronts(of_fronts, metrics, server.front_ready, server.orphaned)
        try:
            fronts.start()  # first, because both take some seconds
            models.start()
            with for_many_requests(2 * limits.connection.total):
                server.run()
        finally:
            listener.close()
            fronts.kill()
            models.close(drain=False)
    if fronts.failed:
        raise FirthError("a process that handles HTTP ended before it was ready")


def check_fronts(processes: int, *, apart: bool) -> None:
    if processes > 1 and sys.platform == "win32":
        raise ConfigError(f"--processes is {processes}, which Windows does not support. Use 1.")
    if processes > 1 and not apart:
        raise ConfigError(f"--processes is {processes}, which needs engines in processes of their own. Use --engine process.")


def default_processes(models: Models, *, on_gpu: bool) -> int:
    """Several where an engine on a GPU is so fast that one process cannot keep up with it, and where there are cores for them."""
    if sys.platform != "linux" or not on_gpu or not any(isinstance(model.engine, EngineProcess) for model in models):
        return 1
    return min(_MOST, cores() // 2) if cores() >= 4 else 1


def _front_models(models: Models, folder: Path, processes: int) -> list[list[FrontModel]]:
    """The models of each front."""
    key, fronts = secrets.token_bytes(32), list[list[FrontModel]]()
    for number, model in enumerate(models):
        doors: list[EngineDoor] | list[None] = [None] * processes
        if isinstance(model.engine, EngineProcess):
            doors = model.engine.open_door(str(folder / f"engine-{number}"), key, processes)
        run = _without_weights(model.run)
        fronts.append([FrontModel(model.name, run, door) for door in doors])
    return [list(own) for own in zip(*fronts, strict=True)]


@dataclass(frozen=True)
class _Sizes:
    """The structure of a network without its weights."""

    vocab: int
    context: int | None


def _without_weights(run: Run[Any]) -> Run[Any]:
    other = copy.copy(run)
    vars(other).pop("format", None)  # made again when it is needed; a chat template cannot be sent to another process
    other.network = _Sizes(getattr(run.network, "vocab", 0), run.network.context)
    return other


class _Supervisor(Server):
    """Shuts down in this order: no more connections; then the fronts, once their requests are answered; then the rest."""

    fronts: Fronts

    def __init__(
        self,
        config: uvicorn.Config,
        listener: socket.socket,
        ready: Callable[[], None],
        draining: Callable[[], None],
        drain: float,
    ) -> None:
        super().__init__(config, lambda: None, draining)
        self._listener, self._all_ready, self._drain = listener, ready, drain
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = False  # that it is ready
        self._orphans: list[socket.socket] = []  # connections for which no front was ready
        self._ends: float | None = None  # when the fronts must be gone

    def front_ready(self) -> None:
        """From any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._begin)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listener.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._begin()

    def _begin(self) -> None:
        """Take connections, once all fronts are ready; later some of them are enough."""
        assert self._loop is not None
        if self._ends is None and (self._told or self.fronts.all_ready):
            orphans, self._orphans = self._orphans, []
            for client in orphans:
                self._hand_over(client)
            self._loop.add_reader(self._listener, self._accept)
            if not self._told:
                self._told = True
                self._all_ready()

    def _accept(self) -> None:
        assert self._loop is not None
        for _ in range(_AT_ONCE):
            if not self.fronts.any_ready:
                self._loop.remove_reader(self._listener)  # clients wait until one is
                return
            try:
                client, _ = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # too many open files, for example
                self._loop.remove_reader(self._listener)
                self._loop.call_later(_REST, self._begin)
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._hand_over(client)

    def orphaned(self, client: socket.socket) -> None:
        """Pass on a connection whose front has ended before it read a request. May be called from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._hand_over, client)

    def _hand_over(self, client: socket.socket) -> None:
        """Pass a connection to a front that is ready, or keep it until one is."""
        assert self._loop is not None
        if self._ends is not None or len(self._orphans) >= _ORPHANS:
            client.close()
        elif not self.fronts.hand_over(client):
            if not self._orphans:
                self._loop.call_later(_REST, self._begin)
            self._orphans.append(client)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._ends is not None:
            self.should_exit = self.force_exit = True
        else:
            self._ends = time.monotonic() + self._drain + _GRACE
            self._draining()

    async def on_tick(self, counter: int) -> bool:
        if self._ends is not None and self._listener.fileno() >= 0:
            assert self._loop is not None
            self._loop.remove_reader(self._listener)
            self._listener.close()
            while self._orphans:
                self._orphans.pop().close()
            self.fronts.end()
        if self.force_exit or (self._ends is not None and time.monotonic() > self._ends):
            self.fronts.kill()  # and the engines cancel their texts
        if self.fronts.failed or (self._ends is not None and not self.fronts.living):
            self.should_exit = True
        return await super().on_tick(counter)
