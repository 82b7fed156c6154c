"""Gate: what every request passes before the application sees it. Plain ASGI, which does not buffer streamed responses."""

from __future__ import annotations

import logging
import time
import traceback
from typing import TYPE_CHECKING

from firth.serving.http.errors import ApiError, as_api_error
from firth.serving.http.keys import VARIABLE, Keys
from firth.serving.http.limits import Limits
from firth.serving.http.metrics import Counting
from firth.serving.requests import claims_more, from_another_page, headers_of, is_json, to_this_machine

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CLIENT_LEFT = 499  # what metrics call a request whose client left before its response began
_OPEN = frozenset(("/health", "/docs", "/openapi.json"))  # answered without a key
_HEADERS = [
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
_log = logging.getLogger("firth.serve")


class Gate:
    """Checks key, origin, type and size; counts requests; turns an unexpected error into a 500 without details."""

    def __init__(self, app: ASGIApp, keys: Keys, limits: Limits, metrics: Counting) -> None:
        self.app, self.keys, self.limits, self.metrics = app, keys, limits, metrics
        self._held = 0  # total size of the bodies of running requests, in bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, held = time.perf_counter(), CLIENT_LEFT, 0

        async def weighed() -> Message:
            nonlocal held
            message = await receive()
            size = len(message.get("body", b""))
            held, self._held = held + size, self._held + size
            if held > self.limits.body:
                raise self._too_large()
            if self._held > max(self.limits.held, self.limits.body):
                raise ApiError(503, "the running requests have reached the server's memory limit. Try again in a moment.")
            return message

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            self._check(scope)
            await self.app(scope, weighed, watched)
        except Exception as error:
            problem = as_api_error(error)
            if problem.status_code >= 500:
                log_failure(error)
            if status == CLIENT_LEFT:
                await problem.response()(scope, receive, watched)
        finally:
            self._held -= held
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.request(route, scope["method"], status, time.perf_counter() - began)

    def _check(self, scope: Scope) -> None:
        headers = headers_of(scope)
        if self.keys:
            if scope["path"] not in _OPEN and not self.keys.accept(headers):
                raise ApiError(401, "the API key is missing or wrong. Send `Authorization: Bearer KEY`.", code="invalid_api_key")
        elif not to_this_machine(headers):
            raise ApiError(
                403,
                f"without an API key the server answers only to 127.0.0.1 and localhost. Set {VARIABLE} to serve other names.",
            )
        if from_another_page(headers) and not self.keys:
            raise ApiError(403, f"the request comes from a web page. Set {VARIABLE} to allow that.")
        if scope["method"] == "POST" and not is_json(headers):
            raise ApiError(415, "the request is not application/json. Send `Content-Type: application/json`.")
        if claims_more(headers, self.limits.body):
            raise self._too_large()

    def _too_large(self) -> ApiError:
        return too_large(self.limits.body)


def too_large(most: int) -> ApiError:
    return ApiError(413, f"the request has more than {most:,} bytes. Send less at once.", code="body_too_large")


def log_failure(error: Exception) -> None:
    """Log the failure without the error's message, which may quote a prompt."""
    _log.error("%s\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))
