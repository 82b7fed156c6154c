"""From texts that are being written to a response: a stream of chunks, or the whole when all of them have ended.

Chunks are put together by hand: there are thousands of them a second."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from firth.serving.http.service import Service
from firth.serving.http.streaming import DONE, EventStream, while_connected
from firth.serving.http.writing import TextDelta, Writing

Spell = Callable[[TextDelta], str]  # one of the choices of a chunk, as JSON


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


class Chunks:
    """`head`: what all chunks have in common. With `usage`, the last one has the number of tokens."""

    def __init__(self, head: dict[str, object], spell: Spell, *, usage: bool) -> None:
        self._head = "data: " + json.dumps(head, ensure_ascii=False)[:-1] + ', "choices": ['
        self._tail = '], "usage": null}\n\n' if usage else "]}\n\n"
        self._spell, self._usage = spell, usage

    async def of(self, writing: Writing, prompt_tokens: int, first_choices: Iterable[str] = ()) -> AsyncIterator[bytes]:
        """`first_choices`: choices that come before the first piece."""
        if first := "".join(self.chunk(choice) for choice in first_choices):
            yield first.encode()
        async for pieces in writing.pieces():
            if waiting := "".join(self.spelled(piece) for piece in pieces if _says_something(piece)):
                yield waiting.encode()
        if self._usage:
            counted = json.dumps(usage(prompt_tokens, writing.generated))
            yield f'{self._head}], "usage": {counted}}}\n\n'.encode()

    def spelled(self, piece: TextDelta) -> str:
        return self.chunk(self._spell(piece))

    def chunk(self, choice: str) -> str:
        return self._head + choice + self._tail


def usage(prompt_tokens: int, generated: int) -> dict[str, int]:
    return {"prompt_tokens": prompt_tokens, "completion_tokens": generated, "total_tokens": prompt_tokens + generated}


def _says_something(piece: TextDelta) -> bool:
    return bool(piece.text or piece.tokens or piece.finish)
