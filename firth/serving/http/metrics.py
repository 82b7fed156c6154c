"""The counters of `/metrics`, for Prometheus: requests, latency, tokens, queues and slots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from firth.decoding.engine.jobs import COUNTED, ENDS

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
Facts = Callable[[], Mapping[str, Mapping[str, int | float]]]  # model → its facts


class Counting(Protocol):
    """Counters of a server's requests."""

    def request(self, route: str, method: str, status: int, seconds: float) -> None: ...

    def first_token(self, model: str, seconds: float) -> None: ...


class Metrics:
    def __init__(self, facts: Facts) -> None:
        self._registry = CollectorRegistry()
        registered: Any = {"registry": self._registry}
        self._requests = Counter("firth_requests", "Requests", ("route", "method", "status"), **registered)
        self._seconds = Histogram("firth_request_seconds", "Duration of requests", ("route",), buckets=_SECONDS, **registered)
        self._first = Histogram(
            "firth_first_token_seconds", "Time to the first token", ("model",), buckets=_SECONDS, **registered
        )
        self._registry.register(_Facts(facts))

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        self._requests.labels(route, method, status).inc()
        self._seconds.labels(route).observe(seconds)

    def first_token(self, model: str, seconds: float) -> None:
        self._first.labels(model).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _Facts(Collector):
    """Facts about the models, collected when they are scraped."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def collect(self) -> Iterable[Metric]:
        ended = CounterMetricFamily("firth_texts", "Texts by how they ended", labels=["model", "end"])
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for model, facts in self._facts().items():
            for name, value in facts.items():
                if name in ENDS:
                    ended.add_metric([model, name], value)
                    continue
                kind = CounterMetricFamily if name in COUNTED else GaugeMetricFamily
                family = families.setdefault(name, kind(f"firth_{name}", name.replace("_", " "), labels=["model"]))
                family.add_metric([model], value)
        return [*families.values(), ended]

    def describe(self) -> Iterable[Metric]:
        return ()
