"""Processes that give jobs to an engine which another one has started."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_jobs import SECONDS, VOCAB, Heard, alone, asked, job, prompts
from small_models import random_model

from firth.decoding.engine import restarts
from firth.decoding.engine import work as engine_work
from firth.decoding.engine.client import EngineClient, EngineConnection, EngineDoor, JobCounts
from firth.decoding.engine.engine import Engine
from firth.decoding.engine.jobs import EngineRestarts, GeneratedToken, JobLimits, QueueFull
from firth.decoding.engine.process import EngineProcess


class Connected(EngineClient):
    """At one end of a pipe."""

    def __init__(self, pipe: Any, queue: int = 10) -> None:
        super().__init__(JobLimits(VOCAB, None, None), slots=2, queue=queue, counts=JobCounts())
        self._connected(pipe)

    def _connect(self) -> bool:
        return False

    def close(self, drain: bool = True, seconds: float | None = None) -> None: ...


def test_the_jobs_of_one_turn_of_a_loop_are_one_message() -> None:
    ours, theirs = multiprocessing.Pipe()
    client = Connected(ours)

    async def several() -> None:
        tickets = [client.submit(job([n + 1]), Heard()) for n in range(3)]
        tickets[1].cancel()
        assert not theirs.poll()
        await asyncio.sleep(0)

    asyncio.run(several())
    assert [message[:2] for message in theirs.recv()] == [("submit", 1), ("submit", 2), ("submit", 3), ("cancel", 2)]
    assert not theirs.poll()
    asyncio.run(several())  # in another loop
    assert [message[0] for message in theirs.recv()] == ["submit", "submit", "submit", "cancel"]
    client.submit(job([1]), Heard()).cancel()  # without a loop, at once
    assert [message[:2] for message in theirs.recv()] == [("submit", 7)]
    assert theirs.recv() == [("cancel", 7)]
    ours.close()
    theirs.close()


def test_jobs_that_have_not_begun_go_to_the_next_engine_once() -> None:
    """Sent or not. Those that have begun are lost, those that nobody wants are not sent again."""
    ours, theirs = multiprocessing.Pipe()
    client, heard = Connected(ours), [Heard() for _ in range(6)]
    tickets = [client.submit(job([n + 1], seconds=50), one) for n, one in enumerate(heard[:5])]
    for _ in range(5):
        theirs.recv()
    client._deliver(1, [GeneratedToken(3, 0.0)])
    tickets[1].cancel()

    async def submit() -> None:
        client.submit(job([6]), heard[5])  # which is not sent
        client._give_up()
        tickets[2].cancel()  # while there is no engine
        client._jobs[4].ends = 0.0
        client._connected(ours)

    asyncio.run(submit())
    assert theirs.recv() == [("cancel", 2)]
    again = theirs.recv()
    assert [message[:2] for message in again] == [("submit", 5), ("submit", 6)]
    assert (again[0][2].prompt, 0 < again[0][2].seconds <= 50, again[1][2].seconds) == ((5,), True, None)
    assert not theirs.poll()
    assert [one.finished().reason for one in heard[:4]] == ["lost", "cancelled", "cancelled", "timeout"]
    client._give_up()
    assert [one.finished().reason for one in heard[4:]] == ["lost", "lost"]  # they may be what ends the engines
    assert client._counts.lost() == 3
    ours.close()
    theirs.close()


def test_jobs_that_wait_for_an_engine_end_when_there_will_be_none() -> None:
    ours, theirs = multiprocessing.Pipe()
    client, heard = Connected(ours), Heard()
    client.start()
    client.submit(job([1]), heard)
    theirs.close()
    assert heard.finished().reason == "cancelled"
    ours.close()


def test_clients_share_their_counts() -> None:
    cells = [0] * JobCounts.size(3)
    one, two = JobCounts(cells, 1), JobCounts(cells, 2)
    one.add(1)
    two.add(1)
    two.add(2)
    two.connect(False)
    owner = JobCounts(cells)
    assert (owner.in_work(), owner.jobs(), owner.lost(), owner.apart()) == (3, 3, 0, 1)
    two.end(1, lost=True)
    owner.of(2).leave()  # it is gone; what it has counted stays
    assert (owner.in_work(), owner.jobs(), owner.lost(), owner.apart()) == (1, 3, 1, 0)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="needs Unix-domain sockets")
def test_several_processes_use_one_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their connections, at least, all of them in this process."""
    monkeypatch.setattr(restarts, "_LEAST", 0.05)
    model = random_model("gru", VOCAB)
    engine = EngineProcess(model, slots=2, queue=2)
    clients = [EngineConnection(door) for door in engine.open_door(str(tmp_path / "engine"), b"key", 2)]
    for client in clients:
        client.start()
        with pytest.raises(EngineRestarts):
            client.submit(job([1]), Heard())
    engine.start()

    try:
        assert engine.ready
        until(lambda: all(client.ready for client in clients))
        jobs = [job(prompt, 20) for prompt in prompts(2, 9)]
        heard = [asked(client, one) for client, one in zip(clients, jobs, strict=True)]
        assert [one.ids() for one in heard] == [alone(model, one) for one in jobs]

        long = job([1, 2], 1_000_000)
        running = [asked(client, long) for client in (*clients, *clients)]
        for client in (*clients, engine):
            with pytest.raises(QueueFull, match="2 requests"):
                client.submit(long, Heard())
        assert (engine.facts()["running"], engine.facts()["waiting"]) == (2, 2)
        clients[0].close()
        assert [one.finished().reason for one in running[::2]] == ["cancelled"] * 2
        until(lambda: engine.facts()["cancelled"] == 2)
        assert (engine.facts()["running"], engine.facts()["waiting"]) == (2, 0)  # the other's go on

        assert engine.pid is not None
        for one in running[1::2]:
            one.begun()
        engine._counts.of(1).leave()  # as the supervisor does
        os.kill(engine.pid, signal.SIGKILL)
        assert {one.finished().reason for one in running[1::2]} == {"lost"}
        until(lambda: engine.ready)
        assert clients[1].ready
        assert asked(clients[1], jobs[0]).ids() == alone(model, jobs[0])
        assert (engine.facts()["lost"], engine.facts()["jobs"], engine.facts()["running"]) == (2, 7, 0)
    finally:
        for client in clients:
            client.close()
        engine.close(drain=False)


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[EngineDoor, Any, list[Any]]]:
    """An engine's process, run in a thread: its door, the pipe of its owner, and its engine."""
    engines: list[Any] = []

    class Kept(Engine):
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            super().__init__(*arguments, **settings)
            engines.append(weakref.ref(self))

    monkeypatch.setattr(engine_work, "Engine", Kept)
    monkeypatch.setattr(engine_work, "_PATIENCE", 0.2)
    door = EngineDoor(str(tmp_path / "engine"), b"key", JobLimits(VOCAB, None, None), 2, 10, JobCounts())
    ours, theirs = multiprocessing.Pipe()
    settings = engine_work.EngineSettings(2, None, 1, (door.address, door.key))
    thread = threading.Thread(target=engine_work._take_jobs, args=(theirs, settings))
    thread.start()
    ours.send(random_model("gru", VOCAB))
    assert ours.recv() == engine_work.READY
    reading = threading.Thread(target=drained, args=(ours,), daemon=True)
    reading.start()
    yield door, ours, engines
    ours.send([("close", False, None)])
    thread.join(SECONDS)
    theirs.close()
    reading.join(SECONDS)
    ours.close()


def drained(pipe: Any) -> None:
    with contextlib.suppress(EOFError, OSError):
        while True:
            pipe.recv()


def until(true: Callable[[], bool]) -> None:
    ends = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform == "win32", reason="needs Unix-domain sockets")
def test_a_client_that_reads_nothing_does_not_hold_up_the_others(process: tuple[EngineDoor, Any, list[Any]]) -> None:
    door, _, (engine,) = process
    stopped = multiprocessing.connection.Client(door.address, "AF_UNIX", authkey=door.key)
    with socket.socket(fileno=os.dup(stopped.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    stopped.send([("submit", number, job([1, 2], 1_000_000, top=20)) for number in range(2)])
    until(lambda: engine().facts()["running"] == 2)
    until(lambda: engine().facts()["running"] == 0)  # it was given up
    client = EngineConnection(door)
    client.start()
    until(lambda: client.ready)
    assert len(asked(client, job([1, 2], 20)).ids()) == 20
    client.close()
    stopped.close()


@pytest.mark.skipif(sys.platform == "win32", reason="needs Unix-domain sockets")
def test_a_closed_engine_is_kept_by_no_thread(process: tuple[EngineDoor, Any, list[Any]]) -> None:
    """The owner of shared GPU memory must learn that nobody uses it any more."""
    door, owner, (engine,) = process
    client = EngineConnection(door)
    client.start()
    until(lambda: client.ready)
    assert len(asked(client, job([1, 2], 5)).ids()) == 5
    client.close()
    owner.send([("close", False, None)])

    def gone() -> bool:
        gc.collect()
        return engine() is None

    until(gone)
