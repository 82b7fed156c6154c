"""Who may talk to the lab: this machine's browser, on the lab's own page.

Any page on the web can make a browser send requests to 127.0.0.1. It cannot read the answers, unless it gets a name of its own
to resolve to 127.0.0.1 (DNS rebinding): hence the check of Host. And it can have things done, by posting: hence that of Origin.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 1 << 20  # of a request; well above the longest text in the longest of its spellings
_OWN = frozenset(("127.0.0.1", "localhost", "[::1]"))
_HEADERS = {
    # Plotly writes its own styles into the page, and makes pictures to save from data: and blob: addresses.
    "content-security-policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Guard:
    """Stands before the application; plain ASGI, so that it does not hold up what the application streams."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answered = False

        async def guarded(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                message["headers"] = [*message["headers"], *_protection(scope["path"])]
            await send(message)

        try:
            _check(scope)
            await self.app(scope, _limited(receive), guarded)
        except Refused as refusal:
            if not answered:
                await _refuse(refusal, guarded)


def _check(scope: Scope) -> None:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    host = headers.get("host", "")
    if _without_port(host) not in _OWN:
        raise Refused(403, f'the lab answers to 127.0.0.1 and localhost only, not to "{host[:60]}"; open it by that address')
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    foreign = origin is not None and origin != f"http://{host}"
    if scope["path"].startswith("/api/") and (foreign or site not in ("same-origin", "none")):
        raise Refused(403, "another page asked; the lab answers its own page only")
    if scope["method"] == "POST" and headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise Refused(415, "the lab reads application/json only")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MOST_BYTES:
        raise _too_large()


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


def _limited(receive: Receive) -> Receive:
    """A body that does not say how long it is, is counted."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MOST_BYTES:
            raise _too_large()
        return message

    return counted


def _too_large() -> Refused:
    return Refused(413, f"the request has more than {MOST_BYTES:,} bytes; shorten the text")


def _protection(path: str) -> list[tuple[bytes, bytes]]:
    fresh = {"cache-control": "no-store" if path.startswith("/api/") else "no-cache"}
    return [(name.encode(), value.encode()) for name, value in (_HEADERS | fresh).items()]


async def _refuse(refusal: Refused, send: Send) -> None:
    body = json.dumps({"error": str(refusal)}, ensure_ascii=False).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
