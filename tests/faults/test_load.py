"""`firth serve` under load: many clients at once, some of them slow, gone, malformed or far too many; killed and started again.

FIRTH_FAULT_SECONDS sets the length: 10 seconds with 40 clients by default, from a minute on with 200 (`make faults`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from tiny_runs import firth_process

import firth

SECONDS = float(os.environ.get("FIRTH_FAULT_SECONDS", "10"))
CLIENTS = 200 if SECONDS >= 60 else 40
SLOTS, QUEUE = 16, 2 * CLIENTS
PROMPTS = ("the ", "a name", "the list is", "in the set", "a", "the café serves", "empty.\n", "name is in")
LENGTHS = (3, 17, 40)
GROWTH = 200 << 20  # bytes that the server may grow by once it is warm
MALFORMED = (
    b"{",
    b"[]",
    b'{"prompt": 5}',
    b'{"model": "none", "prompt": "a"}',
    b'{"prompt": "a", "tools": [1]}',
    b"\x00\xff" * 50,
)
Answer = tuple[int, bytes]  # status and body


class Down(Exception):
    """The server was killed while it answered."""


class Load:
    """Clients of all kinds; what they see is counted, and what must not be is an error."""

    def __init__(self, port: int, expected: dict[tuple[str, str, int], str]) -> None:
        self.port, self.expected = port, expected
        self.seen: Counter[str] = Counter()
        self.random = random.Random(0)
        self.down = False  # between the kill and the restart
        self.until = 0.0  # when the clients go home

    async def ask(self, body: bytes, pace: Callable[[], Coroutine[Any, Any, None]] | None = None) -> Answer:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n" + head.encode() + body)
            await writer.drain()
            status = int((await reader.readuntil(b"\r\n")).split()[1])
            await reader.readuntil(b"\r\n\r\n")
            text = b""
            while piece := await reader.read(64 if pace else 1 << 16):
                text += piece
                if pace:
                    await pace()
            return status, text
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def request(self, model: str, prompt: str, tokens: int, **more: object) -> bytes:
        return json.dumps({"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, **more}).encode()

    def drawn(self) -> tuple[str, str, int]:
        return self.random.choice(list(self.expected))

    async def reads(self, slowly: bool) -> None:
        wanted = self.drawn()
        pace = (lambda: asyncio.sleep(0.02)) if slowly else None
        status, text = await self.ask(self.request(*wanted, stream=True), pace)
        if status == 429:
            self.seen["refused"] += 1
            await asyncio.sleep(0.2)
            return
        assert status == 200, (status, text)
        answer = streamed(text)
        if answer is None:  # it ended in the middle, which only a killed server does
            raise Down
        assert answer == self.expected[wanted], wanted
        self.seen["read slowly" if slowly else "read"] += 1

    async def leaves(self) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        body = self.request(*self.drawn()[:2], 4000, stream=self.random.random() < 0.5)
        writer.write(f"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                     f"content-length: {len(body)}\r\n\r\n".encode() + body)  # fmt: skip
        await writer.drain()
        await asyncio.sleep(self.random.random() * 0.3)
        writer.transport.abort()
        self.seen["left"] += 1

    async def says_nonsense(self) -> None:
        status, _ = await self.ask(self.random.choice(MALFORMED))
        assert 400 <= status < 500, status
        self.seen["malformed"] += 1

    async def floods(self) -> None:
        """Ten times what the server takes on, at once."""
        model, prompt, _ = self.drawn()
        body = self.request(model, prompt, 3)
        answers = await asyncio.gather(*(self.ask(body) for _ in range(10 * CLIENTS)), return_exceptions=True)
        for one in answers:
            if isinstance(one, tuple):
                assert one[0] in (200, 429, 503), one
                self.seen[f"flood {one[0]}"] += 1
            elif not isinstance(one, OSError | asyncio.IncompleteReadError | ValueError):
                raise one
        if any(isinstance(one, Exception) for one in answers):
            raise Down

    async def client(self, number: int) -> None:
        """Nine tenths read their answers; the others make trouble."""
        while time.monotonic() < self.until:
            try:
                match number % 20:
                    case 0:
                        await self.leaves()
                    case 1:
                        await self.says_nonsense()
                    case 2 | 3:
                        await self.reads(slowly=True)
                    case _:
                        await self.reads(slowly=False)
            except (OSError, asyncio.IncompleteReadError, Down):
                if not self.down:
                    raise
                await asyncio.sleep(0.2)

    async def flood_now_and_then(self) -> None:
        while time.monotonic() < self.until - 1:
            await asyncio.sleep(min(20, SECONDS / 4))
            await self.floods()

    @property
    def missing(self) -> bool:
        """True until everything has happened once."""
        return not all(self.seen[kind] for kind in ("read", "read slowly", "left", "malformed", "flood 200", "flood 429"))


def streamed(text: bytes) -> str | None:
    """The text of a stream of events in HTTP's chunks; None if it is not complete."""
    body, complete = b"", False
    while text:
        size, _, rest = text.partition(b"\r\n")
        try:
            length = int(size, 16)
        except ValueError:
            return None
        if not length:
            complete = True
            break
        body, text = body + rest[:length], rest[length + 2 :]
    events = body.decode().strip().split("\n\n") if complete else []
    if not events or events[-1] != "data: [DONE]":
        return None
    return "".join(json.loads(event.removeprefix("data: "))["choices"][0]["text"] for event in events[:-1])


def start(port: int, processes: int, *runs: Path) -> subprocess.Popen[str]:
    sizes = ("--slots", SLOTS, "--queue", QUEUE, "--processes", processes)
    arguments = ("--port", port, *sizes, "--device", "cpu", "--timeout", 120)
    process = firth_process("serve", *runs, *map(str, arguments))
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("Serving "), (line, process.communicate())
    return process


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("processes", [1, 2])
def test_the_server_stands_whatever_its_clients_do(
    char_run: Path, transformer_run: Path, processes: int, tally: Callable[[str, Mapping[str, int]], None]
) -> None:
    expected = {}
    for path in (char_run, transformer_run):
        run: Any = firth.load(path, "cpu")
        expected |= {(path.name, prompt, n): run.generate(prompt, tokens=n, temperature=0) for prompt in PROMPTS for n in LENGTHS}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    load, sizes = Load(port, expected), list[int]()
    server = start(port, processes, char_run, transformer_run)

    async def watch() -> None:
        """The server's memory, from a quarter of the time on, when it is warm."""
        await asyncio.sleep(SECONDS / 4)
        while time.monotonic() < load.until:
            with contextlib.suppress(psutil.NoSuchProcess):
                own = psutil.Process(server.pid)
                sizes.append(sum(one.memory_info().rss for one in (own, *own.children(recursive=True))))
            await asyncio.sleep(0.5)

    async def story() -> None:
        nonlocal server
        for _ in range(10):  # once is enough unless the machine is busy
            load.until = time.monotonic() + 0.7 * SECONDS
            await asyncio.gather(*map(load.client, range(CLIENTS)), load.flood_now_and_then(), watch())
            if not load.missing:
                break
        print(f"memory: {sizes[0] >> 20} MB when warm, {max(sizes) >> 20} MB at most")
        assert max(sizes) - sizes[0] < GROWTH
        # Killed under load, and started again at the same port.
        load.until = float("inf")
        clients = asyncio.gather(*map(load.client, range(CLIENTS)))
        await asyncio.sleep(1)
        load.down = True
        server.send_signal(signal.SIGKILL)
        await asyncio.to_thread(server.communicate)
        server = await asyncio.to_thread(start, port, processes, char_run, transformer_run)
        await asyncio.sleep(1)
        load.down, before = False, load.seen["read"]
        load.until = time.monotonic() + 2 + 0.2 * SECONDS
        await clients
        assert load.seen["read"] > before

    try:
        with ThreadPoolExecutor(1) as own:  # a browser test before this one has left its loop in the main thread
            own.submit(asyncio.run, story()).result()
        server.send_signal(signal.SIGTERM)
        out, err = server.communicate(timeout=60)
        assert (server.returncode, out) == (0, "The server has ended.\n")
        assert "Traceback" not in err
    finally:
        server.kill()
        server.communicate()
    tally(f"`serve --processes {processes}` under load", load.seen)
    assert not load.missing, load.seen
