"""Worker: everything but generation, in one thread per model.

Long requests are computed in pieces and take turns with the other requests, so that a short request never waits for all of a
long one. Pieces of requests for the same task share a batch. Between two pieces, and whenever the work reports progress, it
stops if its client has disconnected.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from firth.decoding.engine.engine import QueueFull
from firth.errors import FirthError
from firth.progress import Progress

AT_ONCE = 64  # maximum number of inputs in a batch
CHARACTERS = 16_384  # maximum number of characters in a batch of several inputs
Compute = Callable[[list[Any], Progress], Sequence[Any]]  # inputs → a result for each


class _Cancelled(Exception):
    """All clients of the batch have disconnected."""


@dataclass(eq=False)
class _Request:
    key: Hashable  # requests with the same key may share a batch
    compute: Compute
    inputs: list[Any]
    future: asyncio.Future[Sequence[Any]]
    check: Callable[[Progress], None] | None  # raises an error if the inputs are invalid; called before anything is computed
    results: list[Any] = field(default_factory=list)  # the results so far

    def piece(self, room: int, characters: int) -> list[Any]:
        """The next inputs, as many as there is room for."""
        taken: list[Any] = []
        for one in self.inputs[len(self.results) : len(self.results) + room]:
            characters -= _size(one)
            if characters < 0:
                break
            taken.append(one)
        return taken

    def settle(self, result: Sequence[Any] | Exception) -> None:
        """Set the result from the worker's thread."""

        def settle() -> None:
            if self.future.done():
                return
            if isinstance(result, Exception):  # a future refuses StopIteration, and the request would wait forever
                self.future.set_exception(RuntimeError("no next") if isinstance(result, StopIteration) else result)
            else:
                self.future.set_result(result)

        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self.future.get_loop().call_soon_threadsafe(settle)


class Worker:
    def __init__(self, name: str, queue: int) -> None:
        self._queue = queue
        self._waiting: deque[_Request] = deque()
        self._wake = threading.Condition()
        self._closed = False
        self.running = 0
        self._thread = threading.Thread(target=self._work, name=f"work for {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Finishes what waits; does not return before."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def ask(
        self, key: Hashable, compute: Compute, inputs: list[Any], check: Callable[[Progress], None] | None = None
    ) -> Sequence[Any]:
        """The result for each input. If the caller is cancelled, the work is left out or stopped."""
        future: asyncio.Future[Sequence[Any]] = asyncio.get_running_loop().create_future()
        with self._wake:
            if self._closed or len(self._waiting) >= self._queue:
                raise QueueFull(f"{len(self._waiting)} requests are waiting already")
            self._waiting.append(_Request(key, compute, inputs, future, check))
            self._wake.notify()
        return await future

    def _work(self) -> None:
        while batch := self._next():
            self.running = len(batch)
            for request in self._unfinished(batch):
                with self._wake:
                    self._waiting.append(request)  # behind the requests that arrived meanwhile
            self.running = 0

    def _unfinished(self, batch: list[_Request]) -> list[_Request]:
        """Compute a piece of each request; returns the requests that are not finished."""
        good = [request for request in batch if self._checked(request)]
        room, characters, work = AT_ONCE, CHARACTERS, list[_Work]()
        for request in good:
            piece = request.piece(room, characters) or ([] if work else request.inputs[len(request.results) :][:1])
            if piece:
                work.append((request, piece))
                room, characters = room - len(piece), characters - sum(map(_size, piece))
        self._answer(work)
        return [one for one in good if not one.future.cancelled() and len(one.results) < len(one.inputs)]

    def _checked(self, request: _Request) -> bool:
        if request.check is None:
            return True
        try:
            request.check(partial(_stop_if_cancelled, [request]))
        except _Cancelled:
            return False
        except Exception as error:
            request.settle(error)
            return False
        request.check = None
        return True

    def _next(self) -> list[_Request]:
        """The request that has waited longest, and those that can be computed with it. Empty: the worker is closed."""
        with self._wake:
            while True:
                while self._waiting and self._waiting[0].future.cancelled():
                    self._waiting.popleft()
                if self._waiting:
                    break
                if self._closed:
                    return []
                self._wake.wait()
            batch, rest = [self._waiting.popleft()], deque[_Request]()
            room = AT_ONCE - len(batch[0].inputs)
            for request in self._waiting:
                fits = request.key == batch[0].key and len(request.inputs) <= room and not request.future.cancelled()
                (batch if fits else rest).append(request)
                room -= len(request.inputs) if fits else 0
            self._waiting = rest
            return batch

    def _answer(self, work: list[_Work]) -> None:
        if not work:
            return
        requests = [request for request, _ in work]
        try:
            results = requests[0].compute([one for _, piece in work for one in piece], partial(_stop_if_cancelled, requests))
        except _Cancelled:
            return
        except FirthError as error:
            if len(work) == 1:
                self._fail(requests[0], error)
            else:  # only one of them may be wrong
                for one in work:
                    self._answer([one])
            return
        except Exception as error:
            for request in requests:
                self._fail(request, error)
            return
        start = 0
        for request, piece in work:
            request.results.extend(results[start : start + len(piece)])  # += would add a NumPy array element by element
            start += len(piece)
            if len(request.results) == len(request.inputs):
                request.settle(request.results)

    def _fail(self, request: _Request, error: Exception) -> None:
        request.inputs = []  # nothing left to compute
        request.settle(error)


_Work = tuple[_Request, list[Any]]  # the request and its piece


def _stop_if_cancelled(requests: list[_Request], what: str, done: int, total: int) -> None:
    if all(request.future.cancelled() for request in requests):
        raise _Cancelled


def _size(one: Any) -> int:
    """The number of characters in an input, which is a text, several texts, or something else."""
    return len(one) if isinstance(one, str) else sum(map(_size, one)) if isinstance(one, tuple | list) else 0
