"""A front: a process that handles HTTP. Prompts go from here straight to the engines; other requests are relayed to the process
that started it, the supervisor, which also hands over the connections of clients."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, MutableSequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn

from firth.decoding.engine.client import EngineDoor
from firth.serving.bounded_protocol import BoundedProtocol, Phase
from firth.serving.http.app import WRITING, build_writing
from firth.serving.http.keys import Keys
from firth.serving.http.limits import Limits
from firth.serving.http.metrics import Metrics
from firth.serving.http.models import Models, ServedModel
from firth.serving.http.relay import Relay
from firth.serving.http.server import configured, for_many_requests
from firth.tasks.run import Run

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Send


Report = tuple[Any, ...]  # the name of a method of Metrics, and its arguments
_TOGETHER = 0.05  # seconds whose reports are one message
SOCKET = "http"  # of the supervisor, in the folder of sockets
READY, END = "ready", "end"
UNREAD, READ, ANSWERED = range(3)  # state of a connection: no request read yet, request read, response begun
NUMBER = struct.Struct("I")  # of a connection
States = MutableSequence[int]
_AGAIN = 0.02  # seconds between two looks at the engines


class Reports:
    """Like `Metrics`, for code in an event loop; also reports closed connections."""

    def __init__(self, send: Callable[[list[Report]], None]) -> None:
        self._send = send
        self._waiting: list[Report] = []

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        self._add("request", route, method, status, seconds)

    def first_token(self, model: str, seconds: float) -> None:
        self._add("first_token", model, seconds)

    def closed(self, client: int) -> None:
        self._add("closed", client)

    def flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._send(waiting)

    def _add(self, *report: Any) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_later(_TOGETHER, self.flush)
        self._waiting.append(report)


def count(reports: Iterable[Report], metrics: Metrics) -> None:
    for report in reports:
        match report:
            case "request", route, method, status, seconds:
                metrics.request(route, method, status, seconds)
            case "first_token", model, seconds:
                metrics.first_token(model, seconds)


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


def run_front(settings: FrontSettings, pipe: Connection, clients: socket.socket, states: States) -> None:
    """The main function of the process. `pipe`: to the supervisor. `clients`: delivers the clients' connections, each with a
    number. `states`: how far each is, for the supervisor."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the supervisor hears them, too, and decides
    models = Models([ServedModel(one.name, one.run, settings.limits, door=one.door) for one in settings.models])
    reports = Reports(pipe.send)
    own = build_writing(models, settings.limits, settings.keys, reports)
    app = Relay(own, WRITING, str(settings.folder / SOCKET), settings.limits.body)
    config = configured(app, settings.limits.connection, settings.drain, _HandedOver)
    server = _Server(config, models, pipe, _HandOver(clients, states, reports))
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


@dataclass(frozen=True)
class _HandOver:
    clients: socket.socket
    states: States
    reports: Reports


class _HandedOver(BoundedProtocol):
    """A connection that the supervisor holds, too. If this process is killed, the supervisor reads how far the connection is: one
    of which nothing was read goes to another front, and one that was not answered gets a 503."""

    def __init__(self, *args: Any, hand_over: _HandOver, number: int, client: socket.socket, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._hand_over, self._number, self._client_socket = hand_over, number, client
        self._within = False  # a request
        self.app = partial(self._answer, self.app)

    async def _answer(self, app: Any, scope: Any, receive: Receive, send: Send) -> None:
        async def told(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.start":
                self._is(ANSWERED)  # only now: two responses are better than none

        await app(scope, receive, told)

    def _is(self, state: int) -> None:
        self._hand_over.states[self._number] = state

    def data_received(self, data: bytes) -> None:
        if self._hand_over.states[self._number] == UNREAD:
            self._is(READ)
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._within = True

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._within = False

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.phase is Phase.HEAD and not self._within:
            self._is(UNREAD)
        elif not self.transport.is_closing():
            self._is(READ)  # the next request

    def refuse(self, status: int, message: str) -> None:
        super().refuse(status, message)
        self._is(ANSWERED)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        with contextlib.suppress(OSError):
            self._client_socket.shutdown(socket.SHUT_RDWR)  # the supervisor would keep it open for a moment
        self._hand_over.reports.closed(self._number)


class _Server(uvicorn.Server):
    """Serves connections that another process has accepted."""

    def __init__(self, config: uvicorn.Config, models: Models, pipe: Connection, hand_over: _HandOver) -> None:
        super().__init__(config)
        self._models, self._pipe, self._hand_over = models, pipe, hand_over
        self._clients = hand_over.clients
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
            said, files, *_ = socket.recv_fds(self._clients, NUMBER.size, 1)
            if not said:
                loop.remove_reader(self._clients)  # no more will come
            for file in files:
                client = socket.socket(fileno=file)
                client.setblocking(False)
                task = loop.create_task(self._serve_client(loop, client, *NUMBER.unpack(said)))
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)

    async def _serve_client(self, loop: asyncio.AbstractEventLoop, client: socket.socket, number: int) -> None:
        try:
            await loop.connect_accepted_socket(partial(self._protocol, client, number), client)
        except OSError:  # the client has disconnected
            self._hand_over.reports.closed(number)

    def _protocol(self, client: socket.socket, number: int) -> Any:
        kind: Any = self.config.http_protocol_class
        own = {"hand_over": self._hand_over, "number": number, "client": client}
        return kind(config=self.config, server_state=self.server_state, app_state=self.lifespan.state, **own)
