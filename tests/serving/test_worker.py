"""The worker: long requests in pieces, by turns with others, and only as long as somebody waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from http_servers import serving

from firth.progress import Progress
from firth.serving.http.limits import Limits
from firth.serving.http.worker import AT_ONCE, CHARACTERS, Worker


@pytest.fixture
def worker() -> Iterator[Worker]:
    started = Worker("one", 8)
    started.start()
    yield started
    started.close()


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with ThreadPoolExecutor(1) as own:  # a browser test before this one has left its loop in the main thread
        own.submit(asyncio.run, story()).result(60)


def test_a_short_request_does_not_wait_for_a_long_one(worker: Worker) -> None:
    batches: list[list[Any]] = []
    begun, go = threading.Event(), threading.Event()

    def doubled(inputs: list[int], progress: Progress) -> list[int]:
        batches.append(inputs)
        begun.set()
        assert go.wait(30)
        return [2 * one for one in inputs]

    async def story() -> None:
        numbers = list(range(3 * AT_ONCE + 1))
        long = asyncio.create_task(worker.ask("long", doubled, numbers))
        await asyncio.to_thread(begun.wait)
        short = asyncio.create_task(worker.ask("short", doubled, [-1]))
        await asyncio.sleep(0)
        go.set()
        assert await short == [-2]
        assert await long == [2 * one for one in numbers]

    run(story)
    assert [len(one) for one in batches] == [AT_ONCE, 1, AT_ONCE, AT_ONCE, 1]


def test_pieces_are_short_texts_together_and_long_ones_alone(worker: Worker) -> None:
    batches: list[int] = []

    def lengths(inputs: list[str], progress: Progress) -> list[int]:
        batches.append(len(inputs))
        return [len(one) for one in inputs]

    async def story() -> None:
        texts = ["a" * 3 * CHARACTERS, "b", "c", "d" * (CHARACTERS - 2), "e"]
        assert await worker.ask("lengths", lengths, texts) == [len(text) for text in texts]

    run(story)
    assert batches == [1, 3, 1]


def test_work_that_nobody_waits_for_ends_at_its_next_report_or_piece(worker: Worker) -> None:
    batches: list[int] = []
    begun, cancelled = threading.Event(), threading.Event()

    def reporting(inputs: list[int], progress: Progress) -> list[int]:
        batches.append(len(inputs))
        begun.set()
        assert cancelled.wait(30)
        progress("working", 0, 1)
        return pytest.fail("the work went on")

    def silent(inputs: list[int], progress: Progress) -> list[int]:
        batches.append(len(inputs))
        begun.set()
        assert cancelled.wait(30)
        return inputs

    async def story() -> None:
        for compute in (reporting, silent):
            begun.clear()
            cancelled.clear()
            asked = asyncio.create_task(worker.ask("long", compute, list(range(1000))))
            await asyncio.to_thread(begun.wait)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            cancelled.set()
            assert await worker.ask("next", lambda inputs, progress: inputs, [1]) == [1]

    run(story)
    assert batches == [AT_ONCE, AT_ONCE]


@pytest.mark.parametrize("error", [StopIteration(), ValueError("a mistake")])
def test_an_error_of_any_kind_reaches_the_one_who_asked(worker: Worker, error: Exception) -> None:
    def fails(inputs: list[int], progress: Progress) -> list[int]:
        raise error

    async def story() -> None:
        with pytest.raises(ValueError if isinstance(error, ValueError) else RuntimeError):
            await worker.ask("wrong", fails, [1])
        assert await worker.ask("right", lambda inputs, progress: inputs, [1]) == [1]

    run(story)


def test_the_tokens_of_inputs_are_bounded(char_run: Path) -> None:
    """A recurrent model has no context that would bound them."""
    with serving(char_run, limits=Limits(input_tokens=40, all_input_tokens=100)) as served:

        def asked(*texts: str) -> tuple[int, str]:
            reply = served.post("/v1/embeddings", {"model": "char", "input": list(texts)})
            return reply.status, reply.text if reply.status == 200 else reply.error["message"]

        assert asked("a" * 40, "a" * 40, "a" * 20)[0] == 200
        assert asked("a" * 41) == (413, '"input" has a text of 41 tokens; the limit is 40. Shorten it.')
        assert asked("a" * 40, "a" * 40, "a" * 21) == (413, '"input" has more than 100 tokens in all. Send fewer texts at once.')
        assert asked("a" * 70_000)[1] == '"input" has a text of 70,000 characters; the limit is 40 tokens. Shorten it.'
        usage = served.post("/v1/embeddings", {"model": "char", "input": ["the list", "a"]}).json["usage"]
        assert usage["prompt_tokens"] == 9
    with serving(char_run, limits=Limits(input_tokens=40, prompt=50)) as served:
        assert asked("a" * 50)[0] == 200


def test_the_bytes_of_all_requests_in_work_are_bounded(char_run: Path) -> None:
    with serving(char_run, limits=Limits(held=30_000, body=20_000, tokens=10**6)) as served:
        long = {"model": "char", "prompt": "the", "max_tokens": 10**6, "user": "x" * 18_000}
        stream = served.open("/v1/completions", {**long, "stream": True})
        stream.readline()
        reply = served.post("/v1/completions", {**long, "max_tokens": 1})
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        assert served.post("/v1/completions", {"model": "char", "prompt": "the", "max_tokens": 1}).status == 200
        stream.close()
        assert served.idle("char")
        assert served.post("/v1/completions", {**long, "max_tokens": 1}).status == 200
