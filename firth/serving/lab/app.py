"""The web application: the page's files, Plotly from the installed package, and one address for each view."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles

from firth.errors import did_you_mean
from firth.figures import plotly_script
from firth.progress import Progress
from firth.serving.connection_limits import ConnectionLimits
from firth.serving.lab import streaming
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.local_only import MOST_BYTES, LocalOnly
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import PAGE, Room
from firth.serving.lab.rooms import rooms as all_rooms
from firth.serving.requests import SURROGATE, has_lone_surrogate
from firth.version import __version__

LIMITS = ConnectionLimits(body=MOST_BYTES, total=512)
_PLOTLY = '"/plotly.js"'  # in index.html, which is served with the version in this address
_FOR_EVER = "private, max-age=31536000, immutable"
NO_RUNS = (
    "There are no runs here yet. `firth tour` trains a dozen small models and word vectors in a few minutes; "
    "`firth lab` in the same folder then shows them. To see your own runs, start the lab with `firth lab RUN`."
)


def build(library: RunLibrary, rooms: Mapping[str, Room] | None = None, token: str | None = None) -> FastAPI:
    """The web application for the runs in the library. With a `token`, it answers only requests that carry it."""
    rooms = all_rooms() if rooms is None else rooms
    app = FastAPI(title="firth lab", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(LocalOnly, token=token)

    @app.get("/")
    def index() -> HTMLResponse:
        text = (PAGE / "index.html").read_text(encoding="utf-8")
        return HTMLResponse(text.replace(_PLOTLY, f'"/plotly.js?v={plotly_script.version()}"'))

    @app.get("/plotly.js")
    def plotly_js(request: Request, v: str = "") -> Response:
        return _plotly(request.headers, v)

    @app.get("/api/lab")
    def lab() -> dict[str, Any]:
        return contents(library, rooms)

    @app.post("/api/{room}/{view}")
    async def answer(room: str, view: str, request: Request) -> Response:
        try:
            settings = json.loads(await request.body())
        except (ValueError, RecursionError):
            return refusal(400, "the request is not JSON; expected an object with the settings of the view")
        if not isinstance(settings, dict):
            return refusal(400, "the request is JSON, but not an object; expected an object with the settings of the view")
        if has_lone_surrogate(settings):
            return refusal(400, SURROGATE)
        if room not in rooms or view not in rooms[room].views:
            known = [f"{name}/{view}" for name, one in rooms.items() for view in one.views]
            return refusal(404, f'there is no "{room}/{view}" in the lab.{did_you_mean(f"{room}/{view}", known)}')
        work = functools.partial(_result, rooms[room], view, ViewRequest(settings), library)
        return StreamingResponse(streaming.lines(work), media_type="application/x-ndjson")

    app.mount("/page", StaticFiles(directory=PAGE))
    return app


def _plotly(asked: Mapping[str, str], version: str) -> Response:
    """Several megabytes: sent compressed, and only once for each version of plotly.js."""
    packed = "gzip" in asked.get("accept-encoding", "")
    tag = f'"{plotly_script.version()}{"-gzip" if packed else ""}"'
    headers = {"etag": tag, "vary": "accept-encoding"}
    if version == plotly_script.version():
        headers["cache-control"] = _FOR_EVER
    if asked.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    script = plotly_script.compressed()
    if packed:
        return Response(script, media_type="text/javascript", headers=headers | {"content-encoding": "gzip"})
    return Response(gzip.decompress(script), media_type="text/javascript", headers=headers)


def _result(room: Room, view: str, request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    return replace(room.views[view](request, library, progress), unknown=request.unknown)


def contents(library: RunLibrary, rooms: Mapping[str, Room]) -> dict[str, Any]:
    """Everything that the page needs before it asks for a view."""
    empty = not library.runs and not library.vectors
    return {
        "title": "firth lab",
        "version": __version__,
        "no_runs": NO_RUNS if empty else None,
        "runs": [{"name": name, **library.facts(name).json()} for name in library.runs],
        "vectors": list(library.vectors),
        "rooms": [room.json(library) for room in rooms.values()],
    }


def refusal(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status)
