"""HeldConnections: the supervisor's copies of a front's connections, in case the front is killed."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterable, MutableSequence

from firth.serving.http.errors import ApiError
from firth.serving.http.front import READ, UNREAD

_CHUNK = 1 << 16


class HeldConnections:
    """At most as many as there are `states`: states[number] says how far a connection is, and is written by the front."""

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
