"""A view at work: progress, cancelling, two at once."""

from __future__ import annotations

import asyncio
import json
import threading
import warnings
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from firth.serving.lab import streaming
from firth.serving.lab.result import ViewResult, to_json
from firth.serving.lab.streaming import StreamedProgress, lines, show, warnings_as_notes

T = TypeVar("T")


@pytest.fixture(autouse=True)
def _tell_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "_INTERVAL", 0.0)


def test_half_a_character_from_a_damaged_file_can_be_sent() -> None:
    assert json.loads(to_json({"error": "a\ud800b", "more": "é"}).encode()) == {"error": "a\ufffdb", "more": "é"}


def run(listening: Coroutine[Any, Any, T]) -> T:
    """In a thread without a loop: while a browser is open, Playwright has one in this thread."""
    with ThreadPoolExecutor(1) as other:
        return other.submit(asyncio.run, listening).result()


async def first(stream: AsyncIterator[str]) -> dict[str, object]:
    told: dict[str, object] = json.loads(await anext(stream))
    return told


def test_progress_comes_while_the_view_is_at_work() -> None:
    seen = threading.Event()

    def work(progress: StreamedProgress) -> ViewResult:
        progress("a quarter", 1, 4)
        assert seen.wait(10)  # goes on only when the first line has arrived
        return ViewResult({}, "x = 1\n")

    async def listen() -> list[dict[str, object]]:
        stream = lines(work)
        told = [await first(stream)]
        seen.set()
        return told + [json.loads(line) async for line in stream]

    assert run(listen()) == [
        {"progress": 0.25, "message": "a quarter"},
        {"result": json.loads(ViewResult({}, "x = 1\n").json()), "notes": []},
    ]


def test_what_a_view_knows_already_comes_before_its_result() -> None:
    seen = threading.Event()

    def work(progress: StreamedProgress) -> ViewResult:
        show(progress, ViewResult({}, "", {"known": 1}))
        assert seen.wait(10)
        return ViewResult({}, "", {"known": 2})

    async def listen() -> list[Any]:
        stream = lines(work)
        told = [await first(stream)]
        seen.set()
        return told + [json.loads(line) async for line in stream]

    part, result = run(listen())
    assert (part["part"]["facts"], result["result"]["facts"]) == ({"known": 1}, {"known": 2})
    show(lambda what, done, total: None, ViewResult({}, ""))  # nobody shows it


def test_a_view_stops_when_nobody_listens_any_more() -> None:
    ended, left = threading.Event(), threading.Event()
    steps = 0

    def work(progress: StreamedProgress) -> ViewResult:
        nonlocal steps
        try:
            while True:
                progress("working", steps, 0)
                steps += 1
                left.wait(0.01)
        finally:
            ended.set()

    async def listen() -> None:
        stream = lines(work)
        assert await first(stream) == {"progress": 0.0, "message": "working"}
        await stream.aclose()  # type: ignore[attr-defined]
        left.set()

    run(listen())
    assert ended.wait(10)


def test_what_a_view_warns_of_goes_to_whoever_asked_each_time() -> None:
    def work(progress: StreamedProgress) -> ViewResult:
        for _ in range(2):
            warnings.warn("never seen: blorp", stacklevel=1)
        return ViewResult({}, "")

    async def listen() -> list[str]:
        return [line async for line in lines(work)]

    elsewhere: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *rest: elsewhere.append(str(message))
        with warnings_as_notes():
            for _ in range(2):
                assert json.loads(run(listen())[-1])["notes"] == ["never seen: blorp"]
            warnings.warn("of nobody's view", stacklevel=1)
    assert elsewhere == ["of nobody's view"]


def test_two_views_are_at_work_at_once() -> None:
    both = threading.Barrier(2, timeout=10)

    def work(progress: StreamedProgress) -> ViewResult:
        both.wait()
        return ViewResult({}, "")

    async def listen() -> list[list[str]]:
        async def all_of() -> list[str]:
            return [line async for line in lines(work)]

        return await asyncio.gather(all_of(), all_of())

    assert all("result" in told[-1] for told in run(listen()))


def test_progress_is_told_a_few_times_a_second_and_never_beyond_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(streaming, "_INTERVAL", 0.1)
    monkeypatch.setattr(streaming.time, "monotonic", lambda: now)
    told: list[str] = []
    progress = StreamedProgress(told.append)
    for done in range(10):
        now += 0.04
        progress("step", done, 4)
    assert [json.loads(line)["progress"] for line in told] == [0.0, 0.75, 1.0, 1.0]
