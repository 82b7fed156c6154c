"""Work spread over threads, with its results in order. It pays where the work releases the GIL: compiled kernels, hashing,
decompression, Hugging Face tokenizers."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

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
