"""`firth serve --processes 2` as its users have it: a process that starts others."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from http_servers import Reply
from tiny_runs import firth_process

KEY = "a-key-of-at-least-sixteen-characters"
SECONDS = 60.0


def wait_until(true: Callable[[], Any]) -> None:
    ends = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.02)


@dataclass
class Fronted:
    process: subprocess.Popen[str]
    port: int
    _opened: list[http.client.HTTPConnection] = field(default_factory=list)

    def ask(self, path: str, body: Any = None, key: str | None = KEY, method: str | None = None, **headers: str) -> Reply:
        """On a connection of its own, which goes to the next front."""
        connection = self.connect()
        answer = reply(begin(connection, path, body, key, method, **headers))
        connection.close()
        return answer

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        connection.connect()
        self._opened.append(connection)
        return connection

    def leave(self) -> None:
        """Close all connections."""
        while self._opened:
            self._opened.pop().close()

    def streams(self, count: int, **body: Any) -> list[http.client.HTTPResponse]:
        """Texts that are being written, and do not end; each on a connection of its own."""
        return [begin(self.connect(), "/v1/completions", LONG | body) for _ in range(count)]

    @property
    def busy(self) -> tuple[int, int]:
        health = self.ask("/health").json
        return health["running"], health["waiting"]

    def children(self) -> list[psutil.Process]:
        """Engines and fronts."""
        processes = []
        for one in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
                if "resource_tracker" not in " ".join(one.cmdline()):
                    processes.append(one)
        return processes

    def front_of(self, connection: http.client.HTTPConnection) -> psutil.Process | None:
        """The process that has the other end of a connection."""
        port = connection.sock.getsockname()[1]
        for child in self.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if any(one.raddr and one.raddr.port == port for one in child.net_connections("tcp")):
                    return child
        return None

    def fronts(self) -> dict[psutil.Process, http.client.HTTPConnection]:
        """Each with a connection to it."""
        connections: dict[psutil.Process, http.client.HTTPConnection] = {}
        for _ in range(2):
            connection = self.connect()
            wait_until(lambda: self.front_of(connection))  # noqa: B023
            front = self.front_of(connection)
            assert front is not None
            connections[front] = connection
        return connections

    def engine(self) -> psutil.Process:
        fronts = self.fronts()
        (engine_process,) = [child for child in self.children() if child not in fronts]
        return engine_process


LONG: dict[str, Any] = {"model": "char", "prompt": "the", "max_tokens": 10_000_000, "temperature": 0, "stream": True}


def begin(
    connection: http.client.HTTPConnection,
    path: str,
    body: Any = None,
    key: str | None = KEY,
    method: str | None = None,
    **headers: str,
) -> http.client.HTTPResponse:
    """The response, to be read as it comes."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    given |= {} if key is None else {"authorization": f"Bearer {key}"}
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    given = ({"content-type": "application/json"} if data is not None else {}) | given
    connection.request(method or ("GET" if data is None else "POST"), path, data, given)
    return connection.getresponse()


def reply(response: http.client.HTTPResponse) -> Reply:
    text = response.read().decode()
    return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, text)


def streamed(text: str) -> list[Any]:
    """The events of a stream, without the last."""
    events = text.strip().split("\n\n")
    assert events[-1] == "data: [DONE]", events[-1]
    return [json.loads(event.removeprefix("data: ")) for event in events[:-1]]


@contextmanager
def fronted(folder: Path, *runs: Path, options: tuple[object, ...] = ()) -> Iterator[Fronted]:
    keys = folder / "keys"
    keys.write_text(KEY)
    more = ("--max-tokens", 100_000_000, "--key-file", keys, "--device", "cpu", "--port", 0, *options)
    process = firth_process("serve", *runs, "--processes", "2", *map(str, more))
    assert process.stdout is not None
    children: list[psutil.Process] = []
    try:
        line = process.stdout.readline()
        assert line.startswith("Serving "), (line, process.communicate())
        served = Fronted(process, int(line.partition("/v1")[0].rpartition(":")[2]))
        children += served.children()
        try:
            yield served
        finally:
            served.leave()
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        for child in children:
            if child.is_running():
                child.kill()  # it would keep the output open
        process.communicate()
