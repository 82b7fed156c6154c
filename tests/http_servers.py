"""Servers of the HTTP API on free ports, for tests with real clients."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from firth.serving.connection_limits import ConnectionLimits
from firth.serving.http.app import build
from firth.serving.http.keys import Keys
from firth.serving.http.limits import Limits
from firth.serving.http.models import Models, load_models
from firth.serving.http.server import configured


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def error(self) -> dict[str, Any]:
        body: dict[str, Any] = self.json["error"]
        return body


@dataclass
class Served:
    address: str
    models: Models

    @property
    def url(self) -> str:
        return f"{self.address}/v1"

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def post(self, path: str, body: Any = None, *, raw: bytes | None = None, **headers: str) -> Reply:
        data = json.dumps(body).encode() if raw is None else raw
        given = {"content-type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask(urllib.request.Request(f"{self.address}{path}", data, given))

    def get(self, path: str, **headers: str) -> Reply:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask(urllib.request.Request(f"{self.address}{path}", headers=given))

    def open(self, path: str, body: Any, **headers: str) -> Any:
        """The response, to be read as it comes."""
        given = {"content-type": "application/json"} | headers
        request = urllib.request.Request(f"{self.address}{path}", json.dumps(body).encode(), given)
        return urllib.request.urlopen(request, timeout=60)

    def ask(self, request: urllib.request.Request) -> Reply:
        try:
            answer = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            return Reply(answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read().decode())

    def facts(self, model: str) -> dict[str, Any]:
        return dict(self.models.facts()[model])

    def idle(self, model: str) -> bool:
        """True if the model becomes idle within ten seconds."""
        for _ in range(500):
            facts = self.facts(model)
            if not facts["running"] and not facts["waiting"]:
                return True
            time.sleep(0.02)
        return False


@contextmanager
def listening(app: Any, limits: ConnectionLimits, drain: float = 5) -> Iterator[int]:
    """The port of an application, which is served in a thread within these limits."""
    place = socket.create_server(("127.0.0.1", 0), backlog=1024)
    server = uvicorn.Server(configured(app, limits, drain))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield place.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)
        place.close()


@contextmanager
def serving(
    *runs: Path, limits: Limits | None = None, keys: Keys | None = None, slots: int = 4, apart: bool = False
) -> Iterator[Served]:
    """A server over these runs, in a thread; `apart`: its engines in processes."""
    limits = limits or Limits()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # as the server does: they quote words of the requests
        models = load_models(runs, limits, device="cpu", slots=slots, apart=apart)
        with listening(build(models, limits, keys), limits.connection) as port:
            yield Served(f"http://127.0.0.1:{port}", models)
