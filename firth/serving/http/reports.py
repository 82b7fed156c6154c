"""Reports: what a process that handles HTTP counts, for the `Metrics` of the process that started it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from firth.serving.http.metrics import Metrics

Report = tuple[Any, ...]  # the name of a method of Metrics, and its arguments
_TOGETHER = 0.05  # seconds whose reports are one message


class Reports:
    """Like `Metrics`, for code in an event loop; also reports closed connections."""

    def __init__(self, send: Callable[[list[Report]], None]) -> None:
        self._send = send
        self._waiting: list[Report] = []

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        self._add("request", route, method, status, seconds)

    def first_token(self, model: str, seconds: float) -> None:
        self._add("first_token", model, seconds)

    def closed(self, client: int) -> None:
        self._add("closed", client)

    def flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._send(waiting)

    def _add(self, *report: Any) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_later(_TOGETHER, self.flush)
        self._waiting.append(report)


def count(reports: Iterable[Report], metrics: Metrics) -> None:
    for report in reports:
        match report:
            case "request", route, method, status, seconds:
                metrics.request(route, method, status, seconds)
            case "first_token", model, seconds:
                metrics.first_token(model, seconds)
