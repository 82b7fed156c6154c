"""The application: the page's files, Plotly from the installed package, and one address for every view."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import plotly
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles

from firth.errors import FirthError, did_you_mean
from firth.serving.lab import streaming
from firth.serving.lab.examples import example
from firth.serving.lab.guard import Guard
from firth.serving.lab.room import Asked, Room, Shown
from firth.serving.lab.rooms import ROOMS
from firth.serving.lab.shelf import Shelf
from firth.version import __version__

PAGE = Path(__file__).parent / "page"
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
NOTHING = (
    "There is nothing to look into yet. `firth tour` trains a dozen small models and word vectors in some minutes; "
    "`firth lab` in the same folder then shows them. Or start it with runs of your own: `firth lab RUN`."
)


def build(shelf: Shelf, rooms: Mapping[str, Room] = ROOMS) -> FastAPI:
    """The lab over what is on the shelf."""
    app = FastAPI(title="firth lab", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(Guard)

    @app.get("/")
    def index() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    @app.get("/plotly.js")
    def plotly_js(request: Request) -> Response:
        script = FileResponse(PLOTLY, media_type="text/javascript", stat_result=PLOTLY.stat())
        known = request.headers.get("if-none-match") == script.headers["etag"]  # megabytes that a browser need not get twice
        return Response(status_code=304, headers={"etag": script.headers["etag"]}) if known else script

    @app.get("/api/lab")
    def lab() -> dict[str, Any]:
        return contents(shelf, rooms)

    @app.post("/api/{room}/{view}")
    async def answer(room: str, view: str, request: Request) -> Response:
        try:
            given = json.loads(await request.body())
        except ValueError:
            return _refusal(400, "the request is not JSON; expected an object with the settings of the view")
        if not isinstance(given, dict):
            return _refusal(400, "the request is not an object; expected one with the settings of the view")
        if room not in rooms or view not in rooms[room].views:
            known = [f"{name}/{view}" for name, one in rooms.items() for view in one.views]
            return _refusal(404, f'there is no "{room}/{view}" in the lab.{did_you_mean(f"{room}/{view}", known)}')
        work = functools.partial(_shown, rooms[room], view, Asked(given), shelf)
        return StreamingResponse(streaming.lines(work), media_type="application/x-ndjson")

    app.mount("/page", StaticFiles(directory=PAGE))
    return app


def _shown(room: Room, view: str, asked: Asked, shelf: Shelf, progress: streaming.Teller) -> Shown:
    return room.views[view](asked, shelf, progress)


def contents(shelf: Shelf, rooms: Mapping[str, Room]) -> dict[str, Any]:
    """What the page needs to know before it asks for anything."""
    nothing = not shelf.runs and not shelf.vectors
    return {
        "title": "firth lab",
        "version": __version__,
        "nothing": NOTHING if nothing else None,
        "runs": [{"name": name, **_about(shelf, name)} for name in shelf.runs],
        "vectors": list(shelf.vectors),
        "corpora": list(shelf.corpora),
        "rooms": [_of_room(room, shelf) for room in rooms.values()],
    }


def _of_room(room: Room, shelf: Shelf) -> dict[str, Any]:
    usable = room.usable(shelf)
    facts = {"name": room.name, "title": room.title, "about": room.about}
    return facts | {"usable": list(usable.names), "otherwise": usable.otherwise}


def _about(shelf: Shelf, name: str) -> dict[str, str | None]:
    try:
        recipe = shelf.recipe(name)
    except FirthError as error:
        return {"about": str(error), "objective": None, "example": ""}
    objective = recipe.objective.kind
    about = f"{recipe.model.family} model, {recipe.model.kind}, {objective}"
    return {"about": about, "objective": objective, "example": example(recipe)}


def _refusal(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status)
