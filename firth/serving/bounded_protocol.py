"""BoundedProtocol: applies ConnectionLimits to every connection of the HTTP API and of the lab.

uvicorn limits neither the size of a request's head nor the time a client takes to send it. Here, bytes are counted before the
parser stores them, and a periodic sweep closes connections whose deadline has passed. If the server is full, a new connection
replaces the one that has been idle longest, so that clients that send nothing cannot keep others out.
"""

from __future__ import annotations

import asyncio
import enum
import ipaddress
import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from firth.serving.connection_limits import ConnectionLimits

Refusal = Callable[[int, str], Response]  # (status, message) → the response
_LINGER = 2.0  # seconds for which a refused client may still send: closing at once could discard the response
_LINGER_BYTES = 1 << 20
_SWEEP = 0.5  # maximum number of seconds between two checks of the deadlines


class Phase(enum.IntEnum):
    HEAD = 0  # a request is expected, or has begun
    BODY = 1  # its head is complete
    WORK = 2  # its body, too
    REFUSED = 3  # further bytes are read and discarded for a moment


class Connections:
    """The connections of one server."""

    def __init__(self, limits: ConnectionLimits, refusal: Refusal) -> None:
        self.limits, self.refusal = limits, refusal
        self.open: set[BoundedProtocol] = set()
        self.waiting: dict[BoundedProtocol, None] = {}  # connections that wait for a head, the oldest first
        self.by_address: Counter[str] = Counter()
        self._planned = False
        self._every = min(_SWEEP, limits.head_seconds / 4, limits.pause / 4)

    def protocol(self, kind: Callable[..., BoundedProtocol] | None = None) -> Any:
        """A factory that uvicorn uses like a protocol class. `kind` is a subclass that takes further arguments."""
        return partial(kind or BoundedProtocol, self)

    def enter(self, one: BoundedProtocol) -> tuple[int, str] | None:
        """Count a new connection; returns the reason if it is refused."""
        refused = None
        self.by_address[one.address] += 1
        most = self.limits.of_address(own=_of_this_machine(one.address))
        if self.by_address[one.address] > most:
            refused = 429, f"there are more than {most:,} connections from this address. Close some, or try again later."
        elif len(self.open) >= self.limits.total:
            if self.waiting:
                next(iter(self.waiting)).give_way()
            else:
                refused = 503, "the server has reached its maximum number of connections. Try again in a moment."
        self.open.add(one)
        if not self._planned:
            self._plan(one.loop)
        return refused

    def leave(self, one: BoundedProtocol) -> None:
        if one in self.open:
            self.open.discard(one)
            self.waiting.pop(one, None)
            self.by_address[one.address] -= 1
            if not self.by_address[one.address]:
                del self.by_address[one.address]

    def _plan(self, loop: asyncio.AbstractEventLoop) -> None:
        self._planned = True
        loop.call_later(self._every, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for one in [one for one in self.open if one.deadline() <= now]:
            one.time_over()
        self._planned = False
        if self.open:
            self._plan(loop)


class BoundedProtocol(HttpToolsProtocol):
    def __init__(self, others: Connections, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.others, self.limits = others, others.limits
        self.address = ""
        self.phase = Phase.HEAD
        self._since = self._heard = self.loop.time()  # when the phase began, and when the last byte arrived
        self._sent = 0  # bytes received in this phase
        self._idle = 0  # bytes since the last piece of a body, or since the request began
        self._answered = math.inf  # when the response to an unfinished request was complete
        self._full: float | None = None  # since when the client has not read what was sent to it
        self._ends = math.inf  # deadline for closing the connection
        self._why: tuple[int, str] | None = None
        self._unanswered: list[Any] = []  # requests without a complete response; uvicorn's `cycle` is the last of them

    # Events of the connection.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        refused = self.others.enter(self)
        self._enter(Phase.HEAD)
        if refused is not None:
            self.refuse(*refused)

    def connection_lost(self, exc: Exception | None) -> None:
        self.others.leave(self)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._disconnect()

    def data_received(self, data: bytes) -> None:
        self._sent += len(data)
        if self.phase is Phase.REFUSED:
            if self._sent > _LINGER_BYTES:
                self.transport.abort()
            return
        now = self.loop.time()
        if self.phase is Phase.HEAD and self._sent == len(data):
            self._since = now
        self._heard = now
        self._idle += len(data)
        super().data_received(data)
        if self._idle > self.limits.head:
            self.refuse(431, f"the head of the request has more than {self.limits.head:,} bytes. Send fewer or shorter headers.")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._full = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._full = None

    # Callbacks of the parser. An exception stops it and closes the connection.

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.parser.get_method()) + 1 + len(self.url) + len(" HTTP/1.1") > self.limits.line:
            raise self._because(414, f"the request line has more than {self.limits.line:,} bytes. Shorten the address.")

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(name) + len(": ") + len(value) > self.limits.line:
            raise self._because(431, f"a header has more than {self.limits.line:,} bytes. Shorten it.")
        if len(self.headers) > self.limits.headers:
            raise self._because(431, f"the request has more than {self.limits.headers:,} headers. Send fewer.")

    def on_headers_complete(self) -> None:
        line = len(self.parser.get_method()) + 1 + len(self.url) + len(" HTTP/1.1\r\n")
        if line + sum(len(name) + len(value) + 4 for name, value in self.headers) + 2 > self.limits.head:
            raise self._because(
                431, f"the head of the request has more than {self.limits.head:,} bytes. Send fewer or shorter headers."
            )
        if len(self.pipeline) >= self.limits.pipelined:
            raise self._because(429, f"more than {self.limits.pipelined} requests wait on this connection. Read the responses.")
        super().on_headers_complete()
        self._unanswered.append(self.cycle)
        self._idle = 0
        self._enter(Phase.BODY)

    def on_body(self, body: bytes) -> None:
        self._idle = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._idle = 0
        self._enter(Phase.WORK)
        if self.cycle.response_complete:
            self._enter(Phase.HEAD)

    def on_response_complete(self) -> None:
        self._unanswered = [one for one in self._unanswered if not one.response_complete]
        super().on_response_complete()
        if self.transport.is_closing():
            self._ends = self.loop.time() + self.limits.pause  # for the client to read the rest
        elif self.cycle.response_complete:
            if self.phase is Phase.WORK:
                self._enter(Phase.HEAD)
            else:
                self._answered = self.loop.time()

    # Deadlines

    def _enter(self, phase: Phase) -> None:
        self.phase, self._since, self._sent, self._answered = phase, self.loop.time(), 0, math.inf
        if phase in (Phase.HEAD, Phase.REFUSED):
            self.others.waiting[self] = None
        else:
            self.others.waiting.pop(self, None)

    def deadline(self) -> float:
        """The time at which the connection is closed unless something arrives before."""
        limits, ends = self.limits, self._ends
        if self._full is not None:
            ends = min(ends, self._full + 2 * limits.pause)
        match self.phase:
            case Phase.HEAD if self._sent or self.timeout_keep_alive_task is None:
                ends = min(ends, self._since + limits.head_seconds)
            case Phase.BODY if not self.flow.read_paused:
                earned = min(self._sent, limits.body) / limits.rate
                ends = min(ends, self._heard + limits.pause, self._since + limits.pause + earned, self._answered + limits.pause)
            case Phase.REFUSED:
                ends = min(ends, self._since + _LINGER)
        return ends

    def time_over(self) -> None:
        if self.phase is Phase.HEAD and self._sent and not self.transport.is_closing():
            self.refuse(408, f"the head of the request did not arrive within {self.limits.head_seconds:g} seconds.")
        elif self.phase is Phase.BODY and not (self.cycle.response_complete or self.transport.is_closing()):
            self.refuse(
                408, f"the body of the request came too slowly: at least {self.limits.rate:,} bytes a second are expected."
            )
        else:
            self.transport.abort()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._ends = self.loop.time() + _LINGER  # close() would wait for the client to read what is buffered

    def give_way(self) -> None:
        """Close, to make room for another connection."""
        self.others.leave(self)
        self.transport.abort()

    def _disconnect(self) -> None:
        """Tell the application that the client has disconnected."""
        for one in self._unanswered:
            one.disconnected = True
            one.message_event.set()

    # Refusals

    def _because(self, status: int, message: str) -> Exception:
        self._why = status, message
        return ValueError(message)

    def send_400_response(self, msg: str) -> None:
        """Refuse the request: the parser, or one of the methods above, has found an error."""
        self.refuse(*(self._why or (400, "the request is not valid HTTP.")))

    def refuse(self, status: int, message: str) -> None:
        """Send an error, keep reading for a moment so that the client receives it, and close. If another response has begun, only
        close."""
        if self.phase is Phase.REFUSED or self.transport.is_closing():
            return
        if len(self._unanswered) > 1 or any(one.response_started for one in self._unanswered):
            self.transport.abort()
            return
        self._disconnect()
        self._unset_keepalive_if_required()
        self._enter(Phase.REFUSED)
        self.flow.resume_reading()
        response = self.others.refusal(status, message)
        response.headers["connection"] = "close"
        headers = b"".join(name + b": " + value + b"\r\n" for name, value in response.raw_headers)
        self.transport.write(STATUS_LINE[status] + headers + b"\r\n" + bytes(response.body))
        if self.transport.can_write_eof():
            self.transport.write_eof()


def _of_this_machine(address: str) -> bool:
    """True also for Unix-domain sockets, which have no address."""
    try:
        return not address or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
