"""The web application: the page's files, Plotly from the installed package, and one address for each view."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import plotly
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles

from firth.errors import did_you_mean
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
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
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
    def index() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    @app.get("/plotly.js")
    def plotly_js(request: Request) -> Response:
        script = FileResponse(PLOTLY, media_type="text/javascript", stat_result=PLOTLY.stat())
        cached = request.headers.get("if-none-match") == script.headers["etag"]  # several megabytes: send them only once
        return Response(status_code=304, headers={"etag": script.headers["etag"]}) if cached else script

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
