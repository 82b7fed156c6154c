"""`firth serve` attacked over loopback, by clients without a key: endless and half-sent heads, slow and silent clients, nonsense,
clients that leave, and processes that are killed under load. Others are served meanwhile, memory is bounded, nothing is lost."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from attack import INPUTS, report
from http_fronts import KEY, fronted
from http_servers import Served, serving
from tiny_runs import firth_process

import firth

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits and signals of POSIX")
GROWTH = 150 << 20  # bytes by which the server may grow
HALF = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
DEEP = (b"[" * 100_000, b'{"prompt":' * 100_000, b'{"prompt": ' + b"[" * 50_000 + b"]" * 50_000 + b"}")
ENDLESS: dict[str, tuple[bytes, bytes]] = {
    "header": (HALF + b"a: ", b"x" * 65_536),
    "name of a header": (HALF, b"x" * 65_536),
    "headers": (HALF, b"a: b\r\n" * 8192),
    "address": (b"GET /", b"x" * 65_536),
    "blank lines": (b"", b"\r\n" * 32_768),
    "extension of a chunk": (HALF + b"transfer-encoding: chunked\r\n\r\n1;", b"x" * 65_536),
    "trailer": (HALF + b"transfer-encoding: chunked\r\n\r\n0\r\na: ", b"x" * 65_536),
}
TEXT = "the list is"


@dataclass
class Target:
    """A server in a process of its own."""

    port: int
    process: psutil.Process
    slowest: float = 0.0  # answer of /health
    _stop: threading.Event = field(default_factory=threading.Event)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def ask(self, path: str = "/health", body: bytes | None = None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET" if body is None else "POST", path, body, {"content-type": "application/json"})
            return connection.getresponse().status
        finally:
            connection.close()

    def write(self) -> int:
        return self.ask("/v1/completions", json.dumps({"prompt": TEXT, "max_tokens": 3}).encode())

    @property
    def memory(self) -> int:
        return sum(one.memory_info().rss for one in (self.process, *self.process.children(recursive=True)))

    @contextmanager
    def watched(self) -> Iterator[Counter[str]]:
        """Others are served meanwhile: their answers are counted, and the server does not grow."""
        seen: Counter[str] = Counter()
        before, most, stop = self.memory, 0, threading.Event()

        def others() -> None:
            nonlocal most
            while not stop.is_set():
                began = time.monotonic()
                seen[f"/health {self.ask()}"] += 1
                self.slowest = max(self.slowest, time.monotonic() - began)
                seen[f"text {self.write()}"] += 1
                most = max(most, self.memory)
                time.sleep(0.05)

        with ThreadPoolExecutor(1) as pool:
            watching = pool.submit(others)
            try:
                yield seen
            finally:
                stop.set()
            watching.result(120)
        seen["MB more"] = max(0, most - before) >> 20
        seen["ms, slowest /health"] = round(1000 * self.slowest)
        assert {name for name in seen if name.startswith(("/health", "text"))} == {"/health 200", "text 200"}, seen
        assert most - before < GROWTH


@contextmanager
def target(*arguments: object) -> Iterator[Target]:
    process = firth_process("serve", *map(str, arguments), "--port", "0", "--device", "cpu")
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("Serving "), (line, process.communicate())
        served = Target(int(line.partition("/v1")[0].rpartition(":")[2]), psutil.Process(process.pid))
        assert served.write() == 200
        yield served
    finally:
        process.kill()
        process.communicate()


def more_files(count: int) -> int:
    """The number of connections that this process may have, at most `count`."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard == resource.RLIM_INFINITY else max(soft, hard), hard))
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return count if soft == resource.RLIM_INFINITY else min(count, soft - 200)


def ended(client: socket.socket) -> str:
    """The server's last word: a status, or nothing."""
    with contextlib.suppress(OSError):
        answer = client.recv(4096)
        return f"status {int(answer.split()[1])}" if answer else "closed"
    return "closed"


def test_deep_json_and_half_characters_are_a_400(char_run: Path) -> None:
    seen: Counter[str] = Counter()
    halves = (rb'{"prompt": "\ud800"}', rb'{"prompt": "a", "\udfff": 1}', b'{"prompt": "\xed\xa0\x80"}')
    with serving(char_run) as served:
        for body in (*DEEP, *halves):
            seen[f"status {served.post('/v1/completions', raw=body).status}"] += 1
        for path in ("embeddings", "classify", "chat/completions", "translate", "tag", "answer", "attention"):
            seen[f"status {served.post(f'/v1/{path}', raw=DEEP[0]).status}"] += 1
        assert served.get("/health").status == 200
    report("deep JSON and half characters", seen)
    assert seen == {"status 400": 13}


@pytest.mark.long
def test_endless_heads_stop_nobody(char_run: Path) -> None:
    def send(kind: str) -> str:
        begin, more = ENDLESS[kind]
        sent = len(begin)
        with server.connect() as client, contextlib.suppress(OSError):
            client.sendall(begin)
            while sent < 256 << 20:
                client.sendall(more)
                sent += len(more)
        return "refused within 16 MB" if sent < 16 << 20 else "read on"

    with target(char_run) as server, server.watched() as seen, ThreadPoolExecutor(8) as pool:
        seen.update(pool.map(send, list(ENDLESS) * max(2, INPUTS // 10)))
    report("endless heads", seen)
    assert not seen["read on"]


@pytest.mark.long
def test_half_sent_requests_keep_nobody_out(char_run: Path) -> None:
    with target(char_run, "--connections", 2048) as server, ExitStack() as stack:
        clients = []
        with server.watched() as seen:
            for _ in range(more_files(15 * INPUTS)):
                clients.append(stack.enter_context(server.connect()))
                with contextlib.suppress(OSError):
                    clients[-1].sendall(HALF)
            for client in clients:
                seen[ended(client)] += 1
        report("half-sent requests", seen)
        assert seen["status 408"] + seen["closed"] == len(clients)


@pytest.mark.long
def test_a_byte_per_second_is_too_slow(char_run: Path) -> None:
    """The byte belongs to a head or a body, chunked or not. Other clients read their answers as slowly."""
    length, chunked = HALF + b"content-length: 100000\r\n\r\n", HALF + b"transfer-encoding: chunked\r\n\r\n"
    kinds = {"head": (HALF + b"a: ", b"x"), "body": (length, b"x"), "chunks": (chunked, b"1\r\nx\r\n"), "nothing": (b"", b"")}

    def drip(kind: str) -> str:
        begin, piece = kinds[kind]
        with server.connect() as client:
            client.sendall(begin)
            client.settimeout(1)
            for _ in range(120):
                try:
                    client.sendall(piece)
                    answer = client.recv(4096)
                    return f"{kind}: status {int(answer.split()[1])}" if answer else f"{kind}: closed"
                except TimeoutError:
                    continue
                except OSError:
                    return f"{kind}: closed"
        return f"{kind}: still open after two minutes"

    with target(char_run) as server, server.watched() as seen, ThreadPoolExecutor(64) as pool:
        seen.update(pool.map(drip, list(kinds) * 16))
    report("a byte per second", seen)
    assert [seen[f"{kind}: status 408"] for kind in ("head", "body", "chunks")] == [16] * 3
    assert seen["nothing: closed"] == 16


@pytest.mark.long
def test_one_address_cannot_take_all_connections(char_run: Path) -> None:
    seen: Counter[str] = Counter()
    with target(char_run, "--per-address", 50) as server, ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(more_files(2 * INPUTS) + 60)]
        for client in clients:
            with contextlib.suppress(OSError):
                client.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            seen[ended(client)] += 1
    report("connections of one address", seen)
    assert seen["status 200"] == 50
    assert seen["status 429"] == len(clients) - 50


BODIES: dict[str, dict[str, Any]] = {
    "completions": {"prompt": TEXT, "max_tokens": 2, "temperature": 1, "top_p": 1, "top_k": 0, "n": 1, "best_of": None,
                    "stop": "a", "seed": 1, "stream": False, "logprobs": 1, "echo": False, "stream_options": None},
    "chat/completions": {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 2, "temperature": 1, "n": 1},
    "embeddings": {"input": TEXT, "encoding_format": "float", "dimensions": None},
    "translate": {"input": TEXT, "beam": 2, "penalty": 0.6, "max_tokens": 2},
    "classify": {"input": TEXT},
    "answer": {"question": TEXT, "context": TEXT},
    "attention": {"model": "transformer", "input": TEXT, "layers": None, "part": None, "target": None},
}  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 10**30, 1e308, 1e-320, "", "\ud800", "a" * 5000, [], {}, [[]], [0], [""], {"": None}, [[[[1]]]],
    [TEXT, "\udfff"], {"role": "user"}, [{"role": "user", "content": "\ud800"}], [10**9], TEXT, [TEXT] * 3, [1, 2], 3, 0.5,
)  # fmt: skip


def nonsense(draw: random.Random) -> tuple[str, bytes]:
    """An address and a body: one that would do, with other values, other names or other bytes."""
    path = draw.choice(list(BODIES))
    body = {"model": "char", **BODIES[path]}
    for name in draw.sample(list(body), draw.randrange(min(3, len(body)))):
        body[name] = draw.choice(VALUES)
    if draw.random() < 0.1:
        body[draw.choice(("\ud800", "tools", "temperture", ""))] = draw.choice(VALUES)
    raw = json.dumps(body).encode()
    if draw.random() < 0.2:
        place = draw.randrange(len(raw))
        raw = raw[:place] + draw.choice((b"\xff", b"[" * 3000, b'"', b"{", b"\\", b"")) + raw[place + draw.randrange(3) :]
    return f"/v1/{path}", raw


@pytest.mark.long
def test_nonsense_is_never_an_internal_error(char_run: Path, transformer_run: Path) -> None:
    seen: Counter[str] = Counter()
    with serving(char_run, transformer_run) as served:
        for number in range(10 * INPUTS):
            path, raw = nonsense(random.Random(number))
            status = served.post(path, raw=raw).status
            seen[f"status {status}"] += 1
            assert status < 500, (number, path, raw[:300])
    report("nonsense", seen)


@pytest.mark.long
def test_clients_that_leave_leave_nothing_behind(char_run: Path, transformer_run: Path) -> None:
    seen: Counter[str] = Counter()
    bodies: dict[str, dict[str, Any]] = {
        "completions": {"prompt": TEXT, "max_tokens": 4000},
        "embeddings": {"input": ["the list is empty. " * 20] * 600},
        "attention": {"input": "the list", "model": "transformer"},
    }

    def leave(number: int) -> None:
        draw = random.Random(number)
        path = draw.choice(list(bodies))
        body = json.dumps({"model": "char", **bodies[path], **({"stream": True} if path == "completions" else {})}).encode()
        facts = f"host: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        head = f"POST /v1/{path} HTTP/1.1\r\n{facts}"
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as client:
            client.sendall(head.encode() + body[: draw.choice((0, len(body) // 2, len(body), len(body)))])
            time.sleep(draw.random() * 0.2)
            if draw.random() < 0.5:  # with a reset, not an end
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        seen[f"left {path}"] += 1

    with serving(char_run, transformer_run) as served:
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(leave, range(INPUTS)))
        nobody_works(served)
        assert served.post("/v1/completions", {"model": "char", "prompt": TEXT, "max_tokens": 1}).status == 200
    report("clients that leave", seen)


def nobody_works(served: Served) -> None:
    ends = time.monotonic() + 60
    while any(facts.get(name) for facts in served.models.facts().values() for name in ("running", "waiting", "worker_waiting")):
        assert time.monotonic() < ends, served.models.facts()
        time.sleep(0.05)


@pytest.mark.long
def test_no_answer_is_lost_when_processes_are_killed_under_load(char_run: Path, tmp_path: Path) -> None:
    """Every request is answered rightly, or with a 503 that says when to try again. Those who keep their connections and those
    who do not."""
    run: Any = firth.load(char_run, "cpu")
    texts = {tokens: run.generate(TEXT, tokens=tokens, temperature=0) for tokens in (1, 8, 60)}
    seen: Counter[str] = Counter()
    stop = threading.Event()

    def client(number: int) -> None:
        draw, connection = random.Random(number), served.connect()
        while not stop.is_set():
            if number % 2 or connection.sock is None:
                connection.close()
                connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
            tokens = draw.choice(list(texts))
            body = json.dumps({"model": "char", "prompt": TEXT, "max_tokens": tokens, "temperature": 0})
            try:
                headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
                connection.request("POST", "/v1/completions", body, headers)
                response = connection.getresponse()
                answer = json.loads(response.read())
            except (OSError, http.client.HTTPException, ValueError) as error:
                seen[f"lost: {type(error).__name__}"] += 1
                connection.close()
                continue
            right = response.status == 200 and answer["choices"][0]["text"] == texts[tokens]
            again = response.status == 503 and response.headers["retry-after"] is not None
            seen["right" if right else "503" if again else f"wrong: status {response.status}"] += 1
            if again:
                time.sleep(0.05)
        connection.close()

    def kills(engine: psutil.Process) -> None:
        for number in range(max(2, min(8, INPUTS // 40))):
            time.sleep(1.5)
            before = served.children()
            victim = engine if number % 4 == 1 else next(one for one in before if one != engine)
            seen["engines killed" if victim == engine else "fronts killed"] += 1
            victim.kill()
            until(lambda: len(set(served.children()) - set(before)) == 1 and served.ask("/health").status == 200)  # noqa: B023
            if victim == engine:
                (engine,) = set(served.children()) - set(before)

    with fronted(tmp_path, char_run, options=("--slots", 2)) as served, ThreadPoolExecutor(16) as pool:
        engine = served.engine()
        served.leave()
        clients = [pool.submit(client, number) for number in range(16)]
        try:
            kills(engine)
        finally:
            stop.set()
        for one in clients:
            one.result(120)
    report("processes killed under load", seen)
    assert seen["right"] > 100
    assert not [name for name in seen if name.startswith(("lost", "wrong"))], seen


def until(true: Callable[[], bool]) -> None:
    ends = time.monotonic() + 120
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.1)
