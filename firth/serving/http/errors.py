"""Errors in OpenAI's form: {"error": {"message", "type", "param", "code"}}."""

from __future__ import annotations

import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from firth.decoding.engine.jobs import EngineClosed, EngineRestarts, QueueFull
from firth.errors import FirthError
from firth.serving.http.limits import RETRY_AFTER

_TYPES = {401: "authentication_error", 403: "permission_error", 408: "timeout_error", 429: "rate_limit_error"}
_RETRY = frozenset((408, 413, 429, 503))  # statuses that say when to try again


class ApiError(HTTPException):
    """An error of the API. It derives from HTTPException, because FastAPI turns every other error in a body into its own 400."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(status, message)
        self.message, self.param, self.code = " ".join(message.split()), param, code

    def body(self) -> dict[str, Any]:
        kind = _TYPES.get(self.status_code, "server_error" if self.status_code >= 500 else "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def json(self) -> str:
        return json.dumps(self.body(), ensure_ascii=False)

    def response(self) -> JSONResponse:
        headers = {"retry-after": str(RETRY_AFTER)} if self.status_code in _RETRY else {}
        if self.status_code == 401:
            headers["www-authenticate"] = "Bearer"
        return JSONResponse(self.body(), self.status_code, headers)


def as_api_error(error: Exception) -> ApiError:
    """The answer to a request that raised `error`."""
    match error:
        case ApiError():
            return error
        case QueueFull():
            return ApiError(
                429, "the server has reached its limit of waiting requests. Try again in a moment.", code="queue_full"
            )
        case EngineClosed():
            return ApiError(503, "the server is shutting down. Try again in a moment.", code="shutting_down")
        case EngineRestarts():
            return ApiError(503, "the model is being started again after a failure. Try again in a moment.", code="restarting")
        case FirthError():
            return ApiError(400, str(error))
        case TimeoutError():
            return ApiError(408, "the request took longer than the server allows. Ask for fewer tokens, or try again later.")
        case HTTPException():
            return ApiError(error.status_code, str(error.detail))
        case _:
            return ApiError(500, "the server failed. This is a bug in firth; its log has the traceback.")


def refusal(status: int, message: str) -> JSONResponse:
    return ApiError(status, message).response()


def wrong(param: str, message: str) -> ApiError:
    return ApiError(400, message, param=param)
