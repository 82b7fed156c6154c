"""From the threads of the engines to the event loop: one wake-up for everything that waits.

A wake-up, and a chunk on a socket, cost more than a step of a small model. So the loop hands out what has come at most every
_PACE seconds per open inbox: one stream gets each token at once, and with many streams the tokens that wait travel together.
The beginning and the end of a text do not wait.
"""

from __future__ import annotations

import asyncio
from collections import deque

from firth.decoding.engine.jobs import Event, Finished

_PACE = 0.0004  # seconds per stream between two deliveries


class InboxClosed(Exception):
    """The client is gone, so further events are discarded."""


class Dispatcher:
    def __init__(self) -> None:
        self.open = 0  # inboxes
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: deque[Inbox] = deque()
        self._urgent: deque[Inbox] = deque()
        self._called = self._called_at_once = False
        self._last = 0.0

    def inbox(self) -> Inbox:
        """For the texts of one request, which the current loop serves."""
        self._loop = asyncio.get_running_loop()
        return Inbox(self)

    def put(self, inbox: Inbox, text: int, events: list[Event]) -> None:
        """From the engine's thread."""
        assert self._loop is not None
        begins = not inbox.started
        inbox.started = True
        inbox.coming.append((text, events))
        try:
            if begins or isinstance(events[-1], Finished):
                self._urgent.append(inbox)
                if not self._called_at_once:
                    self._called_at_once = True
                    self._loop.call_soon_threadsafe(self._hand_out_urgent)
            else:
                self._waiting.append(inbox)
                if not self._called:
                    self._called = True
                    self._loop.call_soon_threadsafe(self._plan)
        except RuntimeError:  # the loop is closed: nobody reads
            self._waiting.clear()
            self._urgent.clear()

    def _plan(self) -> None:
        assert self._loop is not None
        wait = self._last + _PACE * self.open - self._loop.time()
        if wait > 0:
            self._loop.call_later(wait, self._hand_out)
        else:
            self._hand_out()

    def _hand_out(self) -> None:
        assert self._loop is not None
        self._last = self._loop.time()
        self._called = False  # before the last look: what comes after it calls again
        while self._waiting:
            self._waiting.popleft().receive()

    def _hand_out_urgent(self) -> None:
        self._called_at_once = False
        while self._urgent:
            self._urgent.popleft().receive()


class Inbox:
    """The unread events of one request: if its client reads slowly, they wait here and nowhere else."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self.started = False
        self.coming: deque[tuple[int, list[Event]]] = deque()  # filled by the engine's thread
        self._events: list[tuple[int, list[Event]]] = []
        self._some = asyncio.Event()
        self._closed = False
        dispatcher.open += 1

    def receive(self) -> None:
        if self._closed:
            self.coming.clear()
            return
        while self.coming:
            self._events.append(self.coming.popleft())
            self._some.set()

    async def take(self) -> list[tuple[int, list[Event]]]:
        """Everything that has come, once there is something."""
        await self._some.wait()
        if self._closed:
            raise InboxClosed
        self._some.clear()
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._events = []
            self._some.set()
            self._dispatcher.open -= 1
