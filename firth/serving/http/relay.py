"""Relay: passes requests on to another server, over a Unix-domain socket, and its responses back."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from typing import TYPE_CHECKING

import h11

from firth.serving.http.errors import ApiError
from firth.serving.http.gate import too_large
from firth.serving.requests import limited

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_HOP = frozenset((b"connection", b"keep-alive", b"expect", b"upgrade", b"date"))  # headers that are not passed on
_CHUNK = 1 << 16


class Relay:
    """Requests for the paths in `own` go to `app`, all others to the server at `address`, which checks and counts them."""

    def __init__(self, app: ASGIApp, own: Container[str], address: str, most: int) -> None:
        """`most`: bytes of a body."""
        self._app, self._own, self._address, self._most = app, own, address, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._own:
            await self._app(scope, receive, send)
            return
        bounded = limited(receive, self._most, lambda: too_large(self._most))
        relayed = _Relayed(scope, bounded, send)
        try:
            await relayed.run(self._address)
        except h11.LocalProtocolError as error:
            problem = ApiError(400, f"the request is not valid HTTP: {error}")
        except ApiError as error:
            problem = error
        except (OSError, h11.RemoteProtocolError):
            problem = ApiError(503, "the server is shutting down. Try again in a moment.", code="shutting_down")
        else:
            return
        if not relayed.started:
            await problem.response()(scope, receive, send)


class _Relayed:
    """One request. When its client leaves, so does its connection to the other server. The body is sent when that server asks
    for it, because it refuses some requests without reading them."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._names = {name for name, _ in scope["headers"]}
        self._http, self._asked = h11.Connection(h11.CLIENT), asyncio.Event()
        self.started = False

    async def run(self, address: str) -> None:
        request = self._http.send(self._request()) or b""
        reader, writer = await asyncio.open_unix_connection(address)
        writer.write(request)
        tasks = asyncio.ensure_future(self._send_body(writer)), asyncio.ensure_future(self._send_response(reader))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            writer.close()

    @property
    def _has_body(self) -> bool:
        return bool(self._names & {b"content-length", b"transfer-encoding"})

    def _request(self) -> h11.Request:
        headers = [(name, value) for name, value in self._scope["headers"] if name not in _HOP]
        headers += [] if b"host" in self._names else [(b"host", b"")]
        headers += [(b"expect", b"100-continue")] if self._has_body else []
        query = b"?" + self._scope["query_string"] if self._scope["query_string"] else b""
        target = self._scope["raw_path"] + query
        return h11.Request(method=self._scope["method"], target=target, headers=[*headers, (b"connection", b"close")])

    async def _send_body(self, writer: asyncio.StreamWriter) -> None:
        """Returns when the client has left."""
        if self._has_body:
            await self._asked.wait()
        complete = False
        while (message := await self._receive())["type"] != "http.disconnect":
            if not complete:
                writer.write(self._http.send(h11.Data(message.get("body", b""))) or b"")
                if complete := not message.get("more_body", False):
                    writer.write(self._http.send(h11.EndOfMessage()) or b"")
                await writer.drain()

    async def _send_response(self, reader: asyncio.StreamReader) -> None:
        while True:
            match self._http.next_event():
                case h11.NEED_DATA:
                    self._http.receive_data(await reader.read(_CHUNK))
                case h11.InformationalResponse():
                    self._asked.set()
                case h11.Response(status_code=status, headers=headers):
                    self.started = True
                    kept = [(name, value) for name, value in headers if name not in _HOP and name != b"transfer-encoding"]
                    await self._send({"type": "http.response.start", "status": status, "headers": kept})
                case h11.Data(data=data):
                    await self._send({"type": "http.response.body", "body": bytes(data), "more_body": True})
                case h11.EndOfMessage():
                    await self._send({"type": "http.response.body", "body": b""})
                    return
                case _:
                    raise ConnectionError("the response is not complete")
