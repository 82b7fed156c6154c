"""A running server: its socket, its signals, its end."""

from __future__ import annotations

import contextlib
import errno
import gc
import math
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn

from firth.errors import ConfigError
from firth.serving.bounded_protocol import BoundedProtocol, Connections
from firth.serving.connection_limits import ConnectionLimits
from firth.serving.http.app import build
from firth.serving.http.errors import refusal
from firth.serving.http.keys import Keys
from firth.serving.http.limits import Limits
from firth.serving.http.models import Models

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_SWITCH = 0.0005  # seconds after which a thread that computes in Python makes room for another; usually 0.005


def listen(host: str, port: int) -> socket.socket:
    """A socket at exactly this address: clients are configured with it."""
    address = host.strip("[]")
    try:
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((address, port), family=family, backlog=2048)
    except socket.gaierror as error:
        raise ConfigError(f'--host {host} is not an address of this machine. Use "127.0.0.1".') from error
    except OSError as error:
        match error.errno:
            case errno.EADDRINUSE:
                raise ConfigError(f"port {port} is taken; choose another with --port") from error
            case errno.EACCES:
                raise ConfigError(f"port {port} needs more rights; choose one above 1023 with --port") from error
            case errno.EADDRNOTAVAIL:
                raise ConfigError(f'--host {host} is not an address of this machine. Use "127.0.0.1".') from error
        raise


class Server(uvicorn.Server):
    """Stops on SIGTERM or Ctrl-C after the running requests are answered, or at once on a second signal, and then returns."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], draining: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready, self._draining = ready, draining

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not raise the signal again at the end, as uvicorn does: the caller must still close the models."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            self.force_exit = True
        else:
            self.should_exit = True
            self._draining()


def serve(
    models: Models,
    listener: socket.socket,
    *,
    limits: Limits,
    keys: Keys,
    drain: float,
    ready: Callable[[], None],
    draining: Callable[[], None],
) -> None:
    """Answers requests until a signal ends it. Requests in work then have `drain` seconds."""
    config = configured(build(models, limits, keys), limits.connection, drain)
    try:
        models.start()  # here, because uvicorn would not tell what went wrong
        with for_many_requests(limits.connection.total):
            Server(config, ready, draining).run(sockets=[listener])
    finally:
        listener.close()
        models.close(drain=False)


def configured(
    app: ASGIApp, limits: ConnectionLimits, drain: float, kind: type[BoundedProtocol] = BoundedProtocol
) -> uvicorn.Config:
    """The server's settings for connections of clients."""
    protocol = Connections(limits, refusal).protocol(kind)
    return _configured(app, drain, http=protocol, timeout_keep_alive=math.ceil(limits.idle_seconds))


def configured_inside(app: ASGIApp, drain: float, socket: Path) -> uvicorn.Config:
    """The settings for connections of this server's other processes, which apply the limits. `socket`: the address."""
    return _configured(app, drain, uds=str(socket))


def _configured(app: ASGIApp, drain: float, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        ws="none",
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=max(1, round(drain)),
        **more,
    )


@contextlib.contextmanager
def for_many_requests(connections: int) -> Iterator[None]:
    """Settings of the process while it serves."""
    _more_open_files(connections)
    switch = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH)
    gc.freeze()  # what has been loaded stays: no need to look through it again
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # they quote words of the requests
            yield
    finally:
        sys.setswitchinterval(switch)
        gc.unfreeze()


def _more_open_files(connections: int) -> None:
    """Raise the limit on open files, which include connections; many systems allow 1,024, and more on request."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
