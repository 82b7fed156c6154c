"""LocalOnly: the lab answers only its own page in a browser on this machine.

Any web page can make a browser send requests to 127.0.0.1. It cannot read the responses unless its own host name resolves to
127.0.0.1 (DNS rebinding), so Host is checked. It can still trigger work by posting a request, so Origin is checked too.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from firth.serving.requests import RequestRefused, from_another_page, headers_of, limited, to_this_machine

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 1 << 20  # in a request body; well above the longest text that a view accepts, even with every character escaped
_HEADERS = {
    # Plotly adds inline styles to the page, and saves images through data: and blob: addresses.
    "content-security-policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class LocalOnly:
    """Middleware as plain ASGI, which does not buffer the responses that the application streams."""

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
            await self.app(scope, limited(receive, MOST_BYTES, _too_large), guarded)
        except RequestRefused as refusal:
            if not answered:
                await _refuse(refusal, guarded)


def _check(scope: Scope) -> None:
    headers = headers_of(scope)
    host = headers.get("host", "")
    if not to_this_machine(headers):
        raise RequestRefused(
            403, f'the lab answers only to 127.0.0.1 and localhost, not to "{host[:60]}"; open it at http://127.0.0.1'
        )
    if scope["path"].startswith("/api/") and from_another_page(headers):
        raise RequestRefused(403, "the request comes from another page; the lab answers only its own")
    if scope["method"] == "POST" and headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise RequestRefused(415, "the request is not application/json, which is all that the lab accepts")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MOST_BYTES:
        raise _too_large()


def _too_large() -> RequestRefused:
    return RequestRefused(413, f"the request has more than {MOST_BYTES:,} bytes. Shorten the text.")


def _protection(path: str) -> list[tuple[bytes, bytes]]:
    fresh = {"cache-control": "no-store" if path.startswith("/api/") else "no-cache"}
    return [(name.encode(), value.encode()) for name, value in (_HEADERS | fresh).items()]


async def _refuse(refusal: RequestRefused, send: Send) -> None:
    body = json.dumps({"error": str(refusal)}, ensure_ascii=False).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
