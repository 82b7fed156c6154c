"""The checks of the lab and the HTTP API on a request before they read it.

Any web page can make a browser send requests to 127.0.0.1. It cannot read the responses unless its own host name resolves to
127.0.0.1 (DNS rebinding), so Host is checked. It can still trigger work by posting a request, so Origin is checked too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope

SURROGATE = (
    "the request has a lone surrogate, half of a character such as \\ud83d, which is not valid text. Send whole characters."
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_DIGITS = 18  # of a length; Python refuses to read numbers of thousands
_OWN_HOSTS = frozenset(("127.0.0.1", "localhost", "[::1]"))


class RequestRefused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def headers_of(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def to_this_machine(headers: Mapping[str, str]) -> bool:
    """True if the request names this machine by one of its own names."""
    return _without_port(headers.get("host", "")) in _OWN_HOSTS


def from_another_page(headers: Mapping[str, str]) -> bool:
    """True if a browser sent the request for a page of another server."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    return (origin is not None and origin != f"http://{headers.get('host', '')}") or site not in ("same-origin", "none")


def is_json(headers: Mapping[str, str]) -> bool:
    """True if the content type is `application/json`, in any case, with or without parameters."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def has_lone_surrogate(value: Any) -> bool:
    """True if a string or key in parsed JSON contains a lone surrogate, which UTF-8 cannot encode."""
    stack = [value]
    while stack:
        match stack.pop():
            case str(text):
                if not text.isascii() and _SURROGATE.search(text):
                    return True
            case dict(table):
                stack += table.keys()
                stack += table.values()
            case list(several):
                stack += several
    return False


def claims_more(headers: Mapping[str, str], most: int) -> bool:
    """True if the body has more than `most` bytes by its own account, or none that can be believed."""
    length = headers.get("content-length", "0")
    return not length.isdecimal() or len(length) > _DIGITS or int(length) > most


def limited(receive: Receive, most: int, too_large: Callable[[], Exception]) -> Receive:
    """Counts the bytes of a body, also of one that is sent without a content-length."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise too_large()
        return message

    return counted


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()
