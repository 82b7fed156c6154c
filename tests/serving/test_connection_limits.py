"""Limits on the size and speed of a client's request before it reaches the application: at each limit, and one byte beyond."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
from http_servers import listening

from firth.errors import ConfigError
from firth.serving.connection_limits import ConnectionLimits

QUICK = ConnectionLimits(head_seconds=0.4, pause=0.4, rate=1000, idle_seconds=1)
BIG = 8 << 20  # bytes; more than the sockets of both sides hold


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the number of bytes of the body; "/big" with BIG bytes, "/early" before it reads the body, "/held" never."""
    if scope["type"] != "http":
        return
    size, more = 0, scope["path"] != "/early"
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message["body"]), message.get("more_body", False)
    if scope["path"] == "/held":
        await receive()  # which tells when the client has left
        return
    body = b"x" * BIG if scope["path"] == "/big" else json.dumps(size).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with listening(application, ConnectionLimits()) as number:
        yield number


@pytest.fixture(scope="module")
def quick() -> Iterator[int]:
    with listening(application, QUICK) as number:
        yield number


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


@contextmanager
def several(port: int, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(connect(port)) for _ in range(count)]


def read(client: socket.socket) -> bytes:
    """Everything until the server closes the connection."""
    received = b""
    with suppress(ConnectionResetError):
        while piece := client.recv(1 << 16):
            received += piece
    return received


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def asked(port: int, head: bytes, body: bytes = b"") -> int:
    """The status of the only response."""
    with connect(port) as client:
        client.sendall(head + body)
        return status(read(client))


def head(*lines: str, to: str = "/") -> bytes:
    return "\r\n".join((f"GET {to} HTTP/1.1", "host: localhost", "connection: close", *lines, "", "")).encode()


def filled(size: int) -> bytes:
    """A head of exactly so many bytes, in headers of at most 8,000."""
    lines = ["a: " + "x" * 7000] * 4
    return head(*lines, "b: " + "x" * (size - len(head(*lines, "b: "))))


@pytest.mark.parametrize(
    ("most", "beyond", "refusal"),
    [
        (head(to="/" + "a" * (8192 - len("GET / HTTP/1.1"))), head(to="/" + "a" * (8193 - len("GET / HTTP/1.1"))), 414),
        (head("a: " + "x" * (8192 - 3)), head("a: " + "x" * (8193 - 3)), 431),
        (head("x" * (8192 - 3) + ": a"), head("x" * (8193 - 3) + ": a"), 431),
        (filled(32_768), filled(32_769), 431),
        (head(*["a: b"] * 98), head(*["a: b"] * 99), 431),
    ],
    ids=["request line", "value", "name", "whole head", "number of headers"],
)
def test_a_head_may_be_as_long_as_its_limit_and_not_a_byte_longer(port: int, most: bytes, beyond: bytes, refusal: int) -> None:
    assert asked(port, most) == 200
    assert asked(port, beyond) == refusal


def test_a_refusal_is_an_error_of_openais_form_and_ends_the_connection(port: int) -> None:
    with connect(port) as client:
        client.sendall(head(*["a: b"] * 99))
        top, body = read(client).split(b"\r\n\r\n")
    assert b"\r\nconnection: close" in top
    assert json.loads(body)["error"]["message"] == "the request has more than 100 headers. Send fewer."
    assert asked(port, b"nonsense\r\n\r\n") == 400


@pytest.mark.parametrize("begin", [b"GET / HTTP/1.1\r\na: ", b"GET /", b"", b"GET / HTTP/1.1\r\n", b"chunked", b"trailer"])
def test_what_has_no_end_is_refused_soon(port: int, begin: bytes) -> None:
    """An endless header, address, blank lines, many headers, an extension of a chunk, a trailer."""
    chunked = b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    begin, more = {
        b"": (b"", b"\r\n"),
        b"GET / HTTP/1.1\r\n": (begin, b"a: b\r\n"),
        b"chunked": (chunked + b"1;", b"x"),
        b"trailer": (chunked + b"0\r\na: ", b"x"),
    }.get(begin, (begin, b"x"))
    sent = 0
    with connect(port) as client:
        client.sendall(begin)
        with suppress(OSError):  # the server closes the connection
            while sent < 64 << 20:
                client.sendall(more * (16_384 // len(more)))
                sent += 16_384
    assert sent < 16 << 20
    assert asked(port, head()) == 200


def test_a_client_that_sends_on_still_reads_why_it_is_refused(port: int) -> None:
    with connect(port) as client:
        for _ in range(8):
            client.sendall(b"GET / HTTP/1.1\r\na: " + b"x" * 16_000)
            time.sleep(0.01)
        assert status(client.recv(1000)) == 431


def drip(port: int, begin: bytes, piece: Callable[[int], bytes], pause: float = 0.05) -> bytes:
    """The server's answer to a client that sends a few bytes now and then."""
    with connect(port) as client:
        client.sendall(begin)
        for n in range(400):
            client.settimeout(pause)
            try:
                client.sendall(piece(n))
                return client.recv(1000)
            except TimeoutError:
                continue
            except OSError:
                return b""
    pytest.fail("the server waited on and on")


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"GET / HTTP/1.1\r\nhost: localhost\r\n", lambda n: b""),
        (b"GET / HTTP/1.1\r\na: ", lambda n: b"x"),
        (b"GET / HTTP/1.1\r\n", lambda n: b"a: b\r\n" if n < 90 else b""),
        (b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n", lambda n: b""),
        (b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n", lambda n: b"x"),
        (b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n", lambda n: b"1\r\nx\r\n"),
    ],
    ids=["half a head", "a byte of a header", "a header", "half a body", "a byte of a body", "a chunk"],
)  # fmt: skip
def test_slow_clients_get_a_408(quick: int, begin: bytes, piece: Callable[[int], bytes]) -> None:
    assert status(drip(quick, begin, piece)) == 408


def test_silent_connections_are_closed(quick: int) -> None:
    with connect(quick) as client:
        assert read(client) == b""
    with connect(quick) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert status(read(client)) == 200  # and then nothing


def test_a_body_that_comes_slowly_but_fast_enough_is_read(quick: int) -> None:
    """For longer than a pause may last, at twice the rate."""
    with connect(quick) as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 2000\r\n\r\n")
        for _ in range(20):
            client.sendall(b"x" * 100)
            time.sleep(0.05)
        answer = read(client)
    assert (status(answer), answer.endswith(b"\r\n2000")) == (200, True)


def test_a_body_after_its_answer_ends_soon(quick: int) -> None:
    """A client that was answered early, and sends on."""
    begin = b"POST /early HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000000\r\n\r\n"
    with connect(quick) as client:
        client.sendall(begin)
        ends = time.monotonic() + 20
        with suppress(ConnectionResetError, BrokenPipeError):
            while True:
                client.sendall(b"x" * 1000)
                time.sleep(0.01)
                assert time.monotonic() < ends


def test_a_client_that_does_not_take_its_answer_is_left(quick: int) -> None:
    with connect(quick) as client:
        client.sendall(b"GET /big HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        time.sleep(1.5)
        assert len(read(client)) < BIG


def test_requests_that_are_sent_ahead_are_bounded(port: int) -> None:
    with connect(port) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n" * 5 + head())
        assert read(client).count(b"HTTP/1.1 200") == 6
    with connect(port) as client:
        client.sendall(b"GET /held HTTP/1.1\r\nhost: localhost\r\n\r\n" * 200)
        assert read(client) == b""


def test_the_connections_of_an_address_are_bounded() -> None:
    limits = ConnectionLimits(per_address=3, loopback=True)
    with listening(application, limits) as port, several(port, 3) as held:
        for client in held:
            client.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert status(client.recv(1000)) == 200
        with connect(port) as client:
            client.sendall(head())
            answer = read(client)
        assert (status(answer), b"\r\nretry-after: 1\r\n" in answer) == (429, True)
        held.pop().close()
        ends = time.monotonic() + 20
        while asked(port, head()) != 200:
            assert time.monotonic() < ends


def test_a_new_connection_replaces_the_one_that_has_waited_longest() -> None:
    with listening(application, ConnectionLimits(total=4)) as port, several(port, 4) as waiting:
        for client in waiting:
            client.sendall(b"GET / HTTP/1.1\r\n")
            time.sleep(0.05)
        assert asked(port, head()) == 200
        assert read(waiting[0]) == b""
        waiting[3].sendall(b"host: localhost\r\nconnection: close\r\n\r\n")
        assert status(read(waiting[3])) == 200


def test_connections_at_work_are_not_replaced() -> None:
    with listening(application, ConnectionLimits(total=2), drain=1) as port, several(port, 2) as working:
        for client in working:
            client.sendall(b"GET /held HTTP/1.1\r\nhost: localhost\r\n\r\n")
        time.sleep(0.1)
        with connect(port) as client:
            client.sendall(head())
            answer = read(client)
        assert (status(answer), b"\r\nretry-after: 1\r\n" in answer) == (503, True)
        for client in working:
            client.close()
        ends = time.monotonic() + 20
        while asked(port, head()) != 200:
            assert time.monotonic() < ends


def test_a_limit_is_positive() -> None:
    with pytest.raises(ConfigError, match="`line` is 0; expected more than 0"):
        ConnectionLimits(line=0)
    with pytest.raises(ConfigError, match="`per_address` is -1"):
        ConnectionLimits(per_address=-1)


def test_by_default_only_other_machines_have_a_limit() -> None:
    assert ConnectionLimits().of_address(own=False) == 256
    assert ConnectionLimits().of_address(own=True) > 10**6
    assert ConnectionLimits(per_address=0).of_address(own=False) > 10**6
    assert ConnectionLimits(per_address=5, loopback=True).of_address(own=True) == 5
