"""Worker: everything but generation, in one thread per model. Requests that wait for the same are computed as one batch."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from firth.decoding.engine import QueueFull
from firth.errors import FirthError
from firth.progress import Progress

AT_ONCE = 256  # inputs of one batch, as far as requests can be joined
Compute = Callable[[list[Any], Progress], Sequence[Any]]  # inputs → a result for each


class _Cancelled(Exception):
    """Nobody waits for the batch any more."""


@dataclass(eq=False)
class _Request:
    key: Hashable  # requests with the same key may share a batch
    compute: Compute
    inputs: list[Any]
    future: asyncio.Future[Sequence[Any]]

    def settle(self, result: Sequence[Any] | Exception) -> None:
        """From the worker's thread."""

        def settle() -> None:
            if self.future.done():
                return
            if isinstance(result, Exception):
                self.future.set_exception(result)
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

    async def ask(self, key: Hashable, compute: Compute, inputs: list[Any]) -> Sequence[Any]:
        """The result for each input. If the caller is cancelled, the work is left out or stopped."""
        future: asyncio.Future[Sequence[Any]] = asyncio.get_running_loop().create_future()
        with self._wake:
            if self._closed or len(self._waiting) >= self._queue:
                raise QueueFull(f"{len(self._waiting)} requests are waiting already")
            self._waiting.append(_Request(key, compute, inputs, future))
            self._wake.notify()
        return await future

    def _work(self) -> None:
        while batch := self._next():
            self.running = len(batch)
            self._answer(batch)
            self.running = 0

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

    def _answer(self, batch: list[_Request]) -> None:
        def progress(what: str, done: int, total: int) -> None:
            if all(request.future.cancelled() for request in batch):
                raise _Cancelled

        try:
            found = batch[0].compute([one for request in batch for one in request.inputs], progress)
        except _Cancelled:
            return
        except FirthError as error:
            if len(batch) == 1:
                batch[0].settle(error)
            else:  # only one of them may be wrong
                for request in batch:
                    self._answer([request])
            return
        except Exception as error:
            for request in batch:
                request.settle(error)
            return
        start = 0
        for request in batch:
            request.settle(found[start : start + len(request.inputs)])
            start += len(request.inputs)
