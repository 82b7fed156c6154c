"""LocalOnly: the lab answers only its own page in a browser on this machine, and only the user who started it.

Any web page can make a browser send requests to 127.0.0.1. It cannot read the responses unless its own host name resolves to
127.0.0.1 (DNS rebinding), so Host is checked. It can still trigger work by posting a request, so Origin is checked too.
Other users of the machine can connect to 127.0.0.1 as well, so the lab also asks for a token that only its terminal shows:
in the address when the page is opened, in a cookie from then on.
"""

from __future__ import annotations

import json
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from firth.serving.lab.refusal_page import page
from firth.serving.requests import RequestRefused, claims_more, from_another_page, headers_of, is_json, limited, to_this_machine

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

    def __init__(self, app: ASGIApp, token: str | None = None) -> None:
        self.app = app
        self.token = token  # None: whoever can connect is answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answered = False

        async def guarded(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                own = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(one for one in _protection(scope["path"]) if one[0] not in own)]
            await send(message)

        try:
            _check(scope)
            if self.token is not None and scope["path"] == "/" and _matches(_in_address(scope), self.token):
                await _admit(scope, self.token, guarded)
                return
            if self.token is not None and not _known(scope, self.token):
                raise RequestRefused(401, "the lab needs its token; open the address that `firth lab` printed in its terminal")
            await self.app(scope, limited(receive, MOST_BYTES, _too_large), guarded)
        except RequestRefused as refusal:
            if not answered:
                await _refuse(refusal, scope, guarded)


def _check(scope: Scope) -> None:
    headers = headers_of(scope)
    host = headers.get("host", "")
    if not to_this_machine(headers):
        raise RequestRefused(
            403, f'the lab answers only to 127.0.0.1 and localhost, not to "{host[:60]}"; open it at http://127.0.0.1'
        )
    if scope["path"].startswith("/api/") and from_another_page(headers):
        raise RequestRefused(403, "the request comes from another page; the lab only answers its own")
    if scope["method"] == "POST" and not is_json(headers):
        raise RequestRefused(415, "the request is not application/json; the lab accepts nothing else")
    if claims_more(headers, MOST_BYTES):
        raise _too_large()


def _known(scope: Scope, token: str) -> bool:
    """True if the request carries the token: in the cookie of the page, in its address, or as a program's bearer token."""
    headers = headers_of(scope)
    kind, _, bearer = headers.get("authorization", "").partition(" ")
    given = (_in_cookie(scope, headers.get("cookie", "")), _in_address(scope), bearer if kind.lower() == "bearer" else "")
    return any(_matches(one, token) for one in given)


def _matches(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode(), token.encode())


def _in_address(scope: Scope) -> str:
    query: bytes = scope.get("query_string", b"")
    return parse_qs(query.decode("latin-1")).get("token", [""])[0]


def _in_cookie(scope: Scope, header: str) -> str:
    try:
        morsel = SimpleCookie(header).get(_cookie(scope))
    except CookieError:
        return ""
    return morsel.value if morsel else ""


def _cookie(scope: Scope) -> str:
    """A cookie is sent to every port of a host, so labs on different ports need different names."""
    return f"firth-lab-{scope['server'][1]}"


async def _admit(scope: Scope, token: str, send: Send) -> None:
    """Keeps the token in a cookie and takes it out of the address, which users copy. Browsers keep what follows the #."""
    cookie = f"{_cookie(scope)}={token}; Path=/; HttpOnly; SameSite=Lax"
    headers = [(b"location", b"/"), (b"set-cookie", cookie.encode()), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _too_large() -> RequestRefused:
    return RequestRefused(413, f"the request has more than {MOST_BYTES:,} bytes. Shorten the text.")


def _protection(path: str) -> list[tuple[bytes, bytes]]:
    fresh = {"cache-control": "no-store" if path.startswith("/api/") else "no-cache"}
    return [(name.encode(), value.encode()) for name, value in (_HEADERS | fresh).items()]


async def _refuse(refusal: RequestRefused, scope: Scope, send: Send) -> None:
    """As JSON for programs and for the lab's own requests, as a page for somebody who opens or reloads an address."""
    kind, more = "application/json", []
    if scope["method"] == "GET" and "text/html" in headers_of(scope).get("accept", ""):
        body, policy = page(str(refusal), waits=refusal.status == 401)
        kind, more = "text/html; charset=utf-8", [(b"content-security-policy", policy.encode())]
    else:
        body = json.dumps({"error": str(refusal)}, ensure_ascii=False).encode()
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), *more]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
