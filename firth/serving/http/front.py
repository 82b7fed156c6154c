"""A front: a process that handles HTTP. Prompts go from here straight to the engines; other requests are relayed to the process
that started it, the supervisor, which also hands over the connections of clients."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import uvicorn

from firth.decoding.engine_client import EngineDoor
from firth.serving.http.app import WRITING, build_writing
from firth.serving.http.keys import Keys
from firth.serving.http.limits import Limits
from firth.serving.http.models import Models, ServedModel
from firth.serving.http.relay import Relay
from firth.serving.http.reports import Reports
from firth.serving.http.server import configured, for_many_requests
from firth.tasks.run import Run

SOCKET = "http"  # of the supervisor, in the folder of sockets
READY, END = "ready", "end"
_AGAIN = 0.02  # seconds between two looks at the engines


@dataclass(frozen=True)
class FrontModel:
    name: str
    run: Run[Any]  # without weights
    door: EngineDoor | None


@dataclass(frozen=True)
class FrontSettings:
    models: list[FrontModel]
    limits: Limits  # of this front
    keys: Keys
    drain: float
    folder: Path  # of sockets


def run_front(settings: FrontSettings, pipe: Connection, clients: socket.socket) -> None:
    """The whole life of the process. `pipe`: to the supervisor. `clients`: from which the clients' connections come."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the supervisor hears them, too, and decides
    models = Models([ServedModel(one.name, one.run, settings.limits, door=one.door) for one in settings.models])
    reports = Reports(pipe.send)
    own = build_writing(models, settings.limits, settings.keys, reports)
    app = Relay(own, WRITING, str(settings.folder / SOCKET), settings.limits.body)
    server = _Server(configured(app, settings.limits.connection, settings.drain), models, pipe, clients)
    threading.Thread(target=_obey, args=(pipe, server, settings.folder), daemon=True).start()
    with for_many_requests(settings.limits.connection.total):
        server.run(sockets=[])
    with contextlib.suppress(OSError):
        reports.flush()


def _obey(pipe: Connection, server: _Server, folder: Path) -> None:
    with contextlib.suppress(EOFError, OSError):
        while pipe.recv() == END:
            server.should_exit = True
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)  # the supervisor is gone, and with it the engines


class _Server(uvicorn.Server):
    """Serves connections that another process has accepted."""

    def __init__(self, config: uvicorn.Config, models: Models, pipe: Connection, clients: socket.socket) -> None:
        super().__init__(config)
        self._models, self._pipe, self._clients = models, pipe, clients
        self._opening: set[asyncio.Task[Any]] = set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the supervisor's are enough

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        while not (self.should_exit or all(model.ready for model in self._models)):
            await asyncio.sleep(_AGAIN)
        self._clients.setblocking(False)
        asyncio.get_running_loop().add_reader(self._clients, self._admit)
        self._pipe.send(READY)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().remove_reader(self._clients)
        await super().shutdown(sockets)

    def _admit(self) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(BlockingIOError):
            said, files, *_ = socket.recv_fds(self._clients, 1, 1)
            if not said:
                loop.remove_reader(self._clients)  # no more will come
            for file in files:
                client = socket.socket(fileno=file)
                client.setblocking(False)
                task = loop.create_task(self._serve_client(loop, client))
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)

    async def _serve_client(self, loop: asyncio.AbstractEventLoop, client: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it has left
            await loop.connect_accepted_socket(self._protocol, client)

    def _protocol(self) -> Any:
        kind: Any = self.config.http_protocol_class
        return kind(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
