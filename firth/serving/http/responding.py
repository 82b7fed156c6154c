"""From texts that are being written to a response: a stream, or the whole when all of them have ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from firth.serving.http.service import Service
from firth.serving.http.streaming import DONE, EventStream, while_connected
from firth.serving.http.writing import TextDelta, Writing


class ResponseForm(Protocol):
    """The form of a response."""

    def whole(self, writing: Writing, pieces: list[list[TextDelta]]) -> dict[str, Any]: ...

    def chunks(self, writing: Writing, service: Service) -> AsyncIterator[Any]: ...


async def respond(
    service: Service, request: Request, writing: Writing, answer: ResponseForm, *, stream: bool, end: bytes = DONE
) -> Response:
    """`end`: the last event of a stream."""
    seconds = service.limits.seconds
    if stream:
        return EventStream(answer.chunks(writing, service), seconds, writing.cancel, end)
    try:
        pieces = await while_connected(request, seconds, writing.all())
    finally:
        writing.cancel()
    service.metrics.first_token(writing.model.name, writing.first_token or 0.0)
    return JSONResponse(answer.whole(writing, pieces))
