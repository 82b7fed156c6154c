"""Work spread over threads, with its results in order. It pays where the work releases the GIL: compiled kernels, hashing,
decompression, Hugging Face tokenizers."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Full, Queue
from threading import Event
from typing import TypeVar, cast

from firth.errors import ConfigError

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # a container or `taskset` may allow fewer cores than the machine has
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def workers() -> int:
    """Threads that read and encode a corpus: FIRTH_WORKERS, or one per core."""
    given = os.environ.get("FIRTH_WORKERS", "").strip() or str(cores())
    if not given.isdecimal() or int(given) < 1:
        raise ConfigError(f"FIRTH_WORKERS is {given!r}; expected a number of threads, such as 4")
    return int(given)


def in_order(function: Callable[[T], R], items: Iterable[T], workers: int) -> Iterator[R]:
    """`map` in threads. At most 2 · workers results wait, so memory does not grow with the number of items."""
    pool = ThreadPoolExecutor(workers, "firth")
    waiting: deque[Future[R]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def alongside(function: Callable[[T], object], items: Iterable[T]) -> Iterator[T]:
    """The items, each after `function` has seen it in a second thread."""

    def passed(item: T) -> T:
        function(item)
        return item

    return in_order(passed, items, 1)


def read_ahead(sources: Iterable[T], read: Callable[[T], Iterator[R]], at_once: int) -> Iterator[tuple[T, R]]:
    """Each source with the items that `read` gives of it, one source after the other. Up to `at_once` sources are read in threads
    meanwhile, which pays for compressed and for remote files."""
    stopped, room = Event(), 2  # items that wait, of each source

    def fill(source: T, queue: Queue[tuple[bool, R | BaseException | None]]) -> None:
        def put(going_on: bool, item: R | BaseException | None) -> None:
            while not stopped.is_set():
                with contextlib.suppress(Full):
                    return queue.put((going_on, item), timeout=0.1)

        try:
            for item in read(source):
                put(True, item)
                if stopped.is_set():
                    return
        except BaseException as error:  # raised again where it is waited for
            put(False, error)
        put(False, None)

    def drained(source: T, queue: Queue[tuple[bool, R | BaseException | None]]) -> Iterator[tuple[T, R]]:
        while (item := queue.get())[0]:
            yield source, cast(R, item[1])
        if isinstance(item[1], BaseException):
            raise item[1]

    pool = ThreadPoolExecutor(at_once, "firth-reader")
    waiting: deque[tuple[T, Queue[tuple[bool, R | BaseException | None]]]] = deque()
    try:
        for source in sources:
            waiting.append((source, Queue(room)))
            pool.submit(fill, *waiting[-1])
            if len(waiting) >= at_once:
                yield from drained(*waiting.popleft())
        while waiting:
            yield from drained(*waiting.popleft())
    finally:
        stopped.set()
        pool.shutdown(wait=True, cancel_futures=True)
