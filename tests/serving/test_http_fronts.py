"""Several processes that handle HTTP: the answers of one, and their limits and counters together."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from http_fronts import KEY, Fronted, begin, fronted, reply, streamed, wait_until
from shell import Firth
from small_models import random_model

import firth as toolkit
from firth.decoding.engine.process import EngineProcess
from firth.serving.http import supervisor
from firth.serving.http.front import ANSWERED, READ, FrontSettings
from firth.serving.http.fronts import Front, HeldConnections
from firth.serving.http.keys import Keys
from firth.serving.http.limits import Limits
from firth.serving.http.metrics import Metrics
from firth.serving.http.supervisor import default_processes
from firth.serving.lab.library import RunLibrary
from firth.tasks.next_token import LanguageModelRun

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform == "win32", reason="needs Unix-domain sockets"),
]
OLD_RUNS = Path(__file__).parents[1] / "old_runs"
PROMPT: dict[str, Any] = {"model": "char", "prompt": "the", "max_tokens": 20, "temperature": 0}


@pytest.fixture(scope="module")
def server(char_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fronted]:
    """Two slots, a queue of two, bodies of 20,000 bytes."""
    folder = tmp_path_factory.mktemp("fronts")
    limits = ("--slots", 2, "--queue", 2, "--max-body", 20_000)
    with fronted(folder, char_run, options=limits) as fronts:
        yield fronts
    assert fronts.process.returncode == 0


@pytest.fixture
def served(server: Fronted) -> Iterator[Fronted]:
    yield server
    server.leave()


def expected(run: Path) -> str:
    return toolkit.load(run, "cpu", kind=LanguageModelRun).generate("the", tokens=20, temperature=0)


def counted(served: Fronted, name: str) -> float:
    line = re.search(rf"^{re.escape(name)} (\S+)$", served.ask("/metrics").text, re.MULTILINE)
    return float(line[1]) if line else 0.0


def test_every_front_answers_as_one_process_does(served: Fronted, char_run: Path) -> None:
    text = expected(char_run)
    fronts = served.fronts()
    assert len(fronts) == 2  # consecutive connections are shared between them
    for connection in fronts.values():
        assert reply(begin(connection, "/v1/completions", PROMPT)).json["choices"][0]["text"] == text
        events = streamed(reply(begin(connection, "/v1/completions", PROMPT | {"stream": True})).text)
        assert "".join(event["choices"][0]["text"] for event in events) == text
        for path, asked in (
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "the"}]}),
            ("/v1/responses", {"input": "the"}),
        ):
            no_chat = reply(begin(connection, path, asked))
            assert (no_chat.status, "without a chat template and cannot chat" in no_chat.error["message"]) == (400, True)


def test_other_requests_are_answered_by_the_supervisor(served: Fronted, char_run: Path) -> None:
    for connection in served.fronts().values():  # which stay open
        assert reply(begin(connection, "/health")).json["status"] == "ok"
        assert [one["id"] for one in reply(begin(connection, "/v1/models")).json["data"]] == ["char"]
        embedded = reply(begin(connection, "/v1/embeddings", {"model": "char", "input": "the"})).json
        vector = toolkit.load(char_run, "cpu").embed(["the"])[0]
        assert embedded["data"][0]["embedding"] == pytest.approx(vector.tolist(), rel=1e-5)
        unknown = reply(begin(connection, "/v1/none?a=b"))
        assert (unknown.status, unknown.headers["x-content-type-options"]) == (404, "nosniff")
        head = reply(begin(connection, "/health", method="HEAD"))
        assert (head.status, head.text) == (405, "")
        assert "<h2><code>POST /v1/completions" in reply(begin(connection, "/docs")).text
        chunks = iter([b'{"model": "char", ', b'"input": "the"}'])
        told = {"method": "POST", "content_type": "application/json"}
        assert reply(begin(connection, "/v1/embeddings", chunks, **told)).json["data"] == embedded["data"]


def test_what_is_refused_by_one_process_is_refused_by_every_front(served: Fronted) -> None:
    for path, body in (("/v1/completions", PROMPT), ("/v1/embeddings", {"model": "char", "input": "a"}), ("/metrics", None)):
        for key in (None, "another-key-of-sixteen-characters"):
            refused = served.ask(path, body, key=key)
            assert (refused.status, refused.error["code"]) == (401, "invalid_api_key")
    assert served.ask("/health", key=None).status == 200
    for path in ("/v1/completions", "/v1/embeddings"):
        assert served.ask(path, b"x" * 30_000).status == 413
        assert served.ask(path, iter([b"x" * 10_000] * 3), method="POST", content_type="application/json").status == 413
        assert served.ask(path, b"{}", content_type="text/plain").status == 415
    wrong = served.ask("/v1/completions", PROMPT | {"model": "chat"})
    assert (wrong.status, "Served: char." in wrong.error["message"]) == (404, True)


def test_the_counters_of_all_fronts_add_up(served: Fronted) -> None:
    requests = 'firth_requests_total{method="POST",route="/v1/completions",status="200"}'
    names = requests, 'firth_first_token_seconds_count{model="char"}', 'firth_jobs_total{model="char"}'
    tokens = 'firth_tokens_generated_total{model="char"}'
    wait_until(lambda: served.busy == (0, 0))
    time.sleep(0.2)  # until what was counted before has come
    before = [counted(served, name) for name in (*names, tokens)]
    for connection in served.fronts().values():
        for _ in range(2):
            assert reply(begin(connection, "/v1/completions", PROMPT)).status == 200
    wait_until(lambda: [counted(served, name) for name in names] == [count + 4 for count in before[:3]])
    wait_until(lambda: counted(served, tokens) == before[3] + 80)


def test_the_queue_is_as_long_as_one_process_has_it(served: Fronted) -> None:
    """Two texts are written and two wait, whichever front they came from; when their clients leave, they are cancelled."""
    cancelled = 'firth_texts_total{end="cancelled",model="char"}'
    before = counted(served, cancelled)
    served.streams(2)
    waiting = [served.connect() for _ in range(2)]
    for connection in waiting:
        connection.sock.settimeout(0.3)
        with pytest.raises(TimeoutError):  # the response begins with the first token
            begin(connection, "/v1/completions", PROMPT)
    assert served.busy == (2, 2)
    for connection in served.fronts().values():
        full = reply(begin(connection, "/v1/completions", PROMPT))
        assert (full.status, full.error["code"]) == (429, "queue_full")
    served.leave()
    wait_until(lambda: served.busy == (0, 0))
    wait_until(lambda: counted(served, cancelled) == before + 4)
    assert served.ask("/v1/completions", PROMPT).status == 200


def test_what_cannot_be_is_said_at_once(firth: Firth, char_run: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = firth("serve", char_run, "--port", port, "--processes", 2, "--device", "cpu")
    assert (refused.code, f"port {port} is taken; choose another with --port" in refused.err) == (2, True)
    threads = firth("serve", char_run, "--port", 0, "--processes", 2, "--engine", "thread")
    assert (threads.code, "needs engines in processes of their own. Use --engine process." in threads.err) == (2, True)


def test_several_processes_are_the_default_on_a_gpu_with_enough_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = EngineProcess(random_model("gru", 23))
    models: Any = [SimpleNamespace(engine=engine)]
    monkeypatch.setattr(sys, "platform", "linux")
    for cores, expected in ((1, 1), (3, 1), (4, 2), (10, 5), (64, 8)):
        monkeypatch.setattr(supervisor, "cores", lambda cores=cores: cores)
        assert default_processes(models, on_gpu=True) == expected
    assert default_processes(models, on_gpu=False) == 1
    nothing_writes: Any = [SimpleNamespace(engine=None)]
    assert default_processes(nothing_writes, on_gpu=True) == 1
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_processes(models, on_gpu=True) == 1


@pytest.mark.long
def test_every_front_serves_every_run(chat_library: RunLibrary, tmp_path: Path) -> None:
    """digits, which holds conversations, and a classifier, which only the supervisor can ask."""
    path = chat_library.runs["digits"]
    run, classifier = toolkit.load(path, "cpu", kind=LanguageModelRun), OLD_RUNS / "classification"
    messages = [{"role": "user", "content": "name 3"}]
    chat = {"model": "digits", "messages": messages, "temperature": 0}
    with fronted(tmp_path, path, classifier) as served:
        for connection in served.fronts().values():
            whole = reply(begin(connection, "/v1/chat/completions", chat)).json
            assert whole["choices"][0]["message"]["content"] == run.chat(messages)
            events = streamed(reply(begin(connection, "/v1/chat/completions", chat | {"stream": True})).text)
            assert "".join(event["choices"][0]["delta"].get("content", "") for event in events) == run.chat(messages)
            classified = reply(begin(connection, "/v1/classify", {"model": "classification", "input": "a great film"})).json
            assert classified["data"][0]["label"] == toolkit.load(classifier, "cpu").classify(["a great film"])[0].label
            cannot = reply(begin(connection, "/v1/completions", PROMPT | {"model": "classification"}))
            assert (cannot.status, "and cannot generate; it can: classify" in cannot.error["message"]) == (400, True), cannot.text


@pytest.mark.long
def test_a_front_that_cannot_start_is_not_started_again(tmp_path: Path) -> None:
    no_models: Any = [None]
    front = Front(FrontSettings(no_models, Limits(), Keys(), 1.0, tmp_path), Metrics(dict), pytest.fail, pytest.fail)
    front.start()
    wait_until(lambda: not front.lives)
    assert (front.failed, front.ready) == (True, False)


@pytest.mark.long
def test_processes_that_are_killed_are_replaced(char_run: Path, tmp_path: Path) -> None:
    text = expected(char_run)
    with fronted(tmp_path, char_run) as served:
        one, other = served.fronts()
        streams = served.streams(2)
        for response in streams:
            response.readline()
        one.kill()
        one.wait()
        wait_until(lambda: served.busy == (1, 0))  # the other front's text is written on
        for _ in range(3):
            assert served.ask("/v1/completions", PROMPT).json["choices"][0]["text"] == text
        wait_until(lambda: one not in served.fronts() and len(served.fronts()) == 2)
        fronts = served.fronts()
        assert other in fronts
        for own in fronts.values():
            assert reply(begin(own, "/v1/completions", PROMPT)).json["choices"][0]["text"] == text

        streams += served.streams(1)
        served.engine().kill()
        assert '"restarting"' in streams[-1].read().decode()
        for own in fronts.values():
            down = reply(begin(own, "/v1/completions", PROMPT))
            assert (down.status, down.error["code"]) == (503, "restarting")
        assert served.ask("/health").status == 503
        wait_until(lambda: served.ask("/health").status == 200)
        for own in served.fronts().values():
            assert reply(begin(own, "/v1/completions", PROMPT)).json["choices"][0]["text"] == text
        assert served.busy == (0, 0)
        assert counted(served, 'firth_texts_total{end="lost",model="char"}') == 2.0


def test_a_killed_front_leaves_what_it_has_not_answered_to_others() -> None:
    """The connections that the supervisor holds, by how far they are."""
    states, orphans = [0] * 4, list[socket.socket]()
    held = HeldConnections(states)
    pairs = [socket.socketpair() for _ in range(5)]
    numbers = [held.add(client) for client, _ in pairs]
    assert (sorted(numbers[:4], key=str), numbers[4]) == ([0, 1, 2, 3], None)  # no room for the fifth
    _, read, answered, closed = numbers[:4]
    pairs[1][1].sendall(b"the rest of a body")
    states[read], states[answered] = READ, ANSWERED
    held.close([closed])
    assert pairs[3][1].recv(100) == b""
    refused = held.part(orphans.append)
    assert (orphans, refused) == ([pairs[0][0]], [pairs[1][0]])
    answer = pairs[1][1].recv(4000)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: 1\r\n" in answer
    assert pairs[2][1].recv(100) == b""
    for one, other in pairs:
        one.close()
        other.close()


@pytest.mark.long
def test_a_request_that_was_not_begun_survives_its_front(char_run: Path, tmp_path: Path) -> None:
    text = expected(char_run)
    with fronted(tmp_path, char_run, options=("--slots", 1)) as served:
        fronts = served.fronts()
        front, idle = next(iter(fronts.items()))
        assert reply(begin(idle, "/v1/completions", PROMPT)).json["choices"][0]["text"] == text
        fresh, half, waits = (connection_of(served, front) for _ in range(3))
        half.sock.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n")
        (busy,) = served.streams(1)
        busy.readline()
        body = b'{"model": "char", "prompt": "the"}'
        head = f"POST /v1/completions HTTP/1.1\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\n"
        waits.sock.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        wait_until(lambda: served.busy == (1, 1))
        front.kill()
        for connection in (idle, fresh):  # nothing of a request was read from these
            assert reply(begin(connection, "/health")).status == 200
        for connection in (half, waits):
            answer = connection.sock.recv(4000)
            assert answer.startswith(b"HTTP/1.1 503 "), answer
            assert b"\r\nretry-after: 1\r\n" in answer


def connection_of(served: Fronted, front: psutil.Process) -> http.client.HTTPConnection:
    """A connection that this front has."""
    while True:
        connection = served.connect()
        wait_until(lambda: served.front_of(connection))  # noqa: B023
        if served.front_of(connection) == front:
            return connection


@pytest.mark.long
def test_requests_that_wait_survive_their_engine(char_run: Path, tmp_path: Path) -> None:
    text = expected(char_run)
    with fronted(tmp_path, char_run, options=("--slots", 1)) as served, ThreadPoolExecutor(4) as pool:
        engine = served.engine()
        (busy,) = served.streams(1)
        busy.readline()
        waiting = [pool.submit(served.ask, "/v1/completions", PROMPT) for _ in range(4)]
        wait_until(lambda: served.busy == (1, 4))
        engine.kill()
        assert '"restarting"' in busy.read().decode()
        replies = [one.result() for one in waiting]
        assert [one.json["choices"][0]["text"] for one in replies] == [text] * 4


@pytest.mark.long
def test_sigterm_drains_every_front(char_run: Path, tmp_path: Path) -> None:
    with fronted(tmp_path, char_run) as served:
        streams = served.streams(2, max_tokens=3000)
        children = served.children()
        for child in (psutil.Process(served.process.pid), *children):  # as Ctrl-C and systemd do
            child.send_signal(signal.SIGTERM)
        for response in streams:
            events = streamed(response.read().decode())
            assert events[-1]["choices"][0]["finish_reason"] == "length"
        out, err = served.process.communicate(timeout=30)
    assert (served.process.returncode, out) == (0, "The server has ended.\n")
    assert err == "firth: ending: no new requests; Ctrl-C again to end at once\n"
    assert not any(child.is_running() for child in children)


@pytest.mark.long
def test_a_second_signal_ends_every_front_at_once(char_run: Path, tmp_path: Path) -> None:
    with fronted(tmp_path, char_run) as served:
        served.streams(2)
        served.process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert served.process.poll() is None
        served.process.send_signal(signal.SIGINT)
        out, err = served.process.communicate(timeout=20)
    assert (served.process.returncode, out, "Traceback" in err) == (0, "The server has ended.\n", False)


@pytest.mark.long
def test_a_supervisor_that_is_killed_leaves_nothing_behind(char_run: Path, tmp_path: Path) -> None:
    with fronted(tmp_path, char_run) as served:
        children = psutil.Process(served.process.pid).children(recursive=True)
        assert len(children) >= 3
        served.streams(2)
        served.process.kill()
        wait_until(lambda: not any(child.is_running() and child.status() != "zombie" for child in children))
