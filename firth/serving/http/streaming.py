"""Responses that last: server-sent events, and work that ends when its client leaves or its time is over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from firth.serving.http.dispatcher import InboxClosed
from firth.serving.http.errors import as_api_error
from firth.serving.http.gate import CLIENT_LEFT, log_failure

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

T = TypeVar("T")
DONE = b"data: [DONE]\n\n"
_GOODBYE = 1.0  # seconds in which a client takes the last event after its time is over
_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]


class ClientLeft(Exception):
    """The client has disconnected."""


async def while_connected(request: Request, seconds: float, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled when the client leaves or after `seconds` (then with a TimeoutError)."""
    task = asyncio.ensure_future(work)
    left = asyncio.ensure_future(_left(request.receive))
    try:
        await asyncio.wait((task, left), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if left.done():
            raise ClientLeft
        raise TimeoutError
    finally:
        await _cancel(task, left)


class EventStream(Response):
    """The chunks of a text as server-sent events, and `end` after them. `stop` is called at the end, whatever the end is, and
    ends them."""

    def __init__(self, chunks: AsyncIterator[bytes], seconds: float, stop: Callable[[], None], end: bytes = DONE) -> None:
        self.chunks, self.seconds, self.stop, self.end = chunks, seconds, stop, end
        self.status_code, self.background = 200, None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left = asyncio.ensure_future(_left(receive))
        left.add_done_callback(lambda _: self.stop())
        try:
            await self._send(send)
        finally:
            self.stop()
            left.cancel()

    async def _send(self, send: Send) -> None:
        """The response begins with its first chunk: what fails before it has a status of its own."""
        started = False
        try:
            async with asyncio.timeout(self.seconds):
                async for chunk in self.chunks:
                    if not started:
                        started = True
                        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body", "body": self.end})
        except InboxClosed:
            return  # the client left
        except Exception as error:
            if isinstance(error, OSError) and not isinstance(error, TimeoutError):
                return  # the client left
            if not started:
                raise
            await self._say(error, send)

    async def _say(self, error: Exception, send: Send) -> None:
        """The last event of a stream that cannot go on."""
        self.stop()
        problem = as_api_error(error)
        if problem.status_code >= 500:
            log_failure(error)
        event = f"data: {problem.json()}\n\n".encode()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                await send({"type": "http.response.body", "body": event})


def no_response() -> Response:
    """For a client that has left."""
    return Response(status_code=CLIENT_LEFT)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
