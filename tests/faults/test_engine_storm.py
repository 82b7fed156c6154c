"""Thousands of random requests with random cancels, from several threads: every answer is right, and nothing is left behind."""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from typing import Any

import psutil
import pytest
import torch
from engine_jobs import VOCAB, Heard, alone_numbered, job
from small_models import random_model

from firth.decoding.engine.engine import Engine, Event, Finished, Job, QueueFull
from firth.models import LanguageModel

REQUESTS = int(os.environ.get("FIRTH_FAULTS_REQUESTS", "1500"))
THREADS = 6


class Client(threading.Thread):
    """Sends requests one after the other, leaves some of them early, and tries again when the queue is full."""

    def __init__(self, engine: Engine, jobs: list[Job], seed: int) -> None:
        super().__init__(daemon=True)
        self.engine, self.jobs, self.draw = engine, jobs, random.Random(seed)
        self.answers: list[tuple[Job, list[Event]]] = []
        self.refused = 0

    def run(self) -> None:
        open_: list[tuple[Job, Heard, Any]] = []
        for one in self.jobs:
            heard = Heard()
            deliver = Leaving(heard, self.draw.randint(1, 6)) if self.draw.random() < 0.3 else heard
            while True:
                try:
                    ticket = self.engine.submit(one, deliver)
                    break
                except QueueFull:
                    self.refused += 1
                    if open_:
                        open_.pop(0)[1].finished()
                    else:
                        time.sleep(0.001)
            if isinstance(deliver, Leaving):
                deliver.ticket.append(ticket)
            elif self.draw.random() < 0.1:
                ticket.cancel()
            open_.append((one, heard, ticket))
            self.answers.append((one, heard.events))
        for _, heard, _ in open_:
            heard.finished()


class Leaving:
    """Cancels after some deliveries, from the engine's own thread."""

    def __init__(self, heard: Heard, calls: int) -> None:
        self.heard, self.calls, self.ticket = heard, calls, []  # type: ignore[var-annotated]

    def __call__(self, events: list[Event]) -> None:
        self.heard(events)
        if self.heard.calls >= self.calls and self.ticket:
            self.ticket[0].cancel()


def random_job(draw: random.Random) -> Job:
    start = draw.choice([[], [1, 2, 3, 4, 5], [1, 2, 3, 9, 9, 9, 9]])  # prefixes that several share
    prompt = start + [draw.randrange(VOCAB) for _ in range(draw.randint(1, 20))]
    settings = draw.choice(
        [{"temperature": 0.0}, {"temperature": 0.0}, {"temperature": 1.0, "top_k": 5, "seed": draw.randrange(3)}]
    )
    return job(prompt, draw.randint(1, 40), ends=draw.choice([(), (4,)]), top=draw.choice([0, 2]), **settings)  # type: ignore[arg-type]


def right(model: LanguageModel, job: Job, known: dict[Job, list[int]]) -> list[int]:
    if job not in known:
        known[job] = alone_numbered(model, job)
    return known[job]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "looks_ahead"),
    [("gru", False), ("linear", False), ("transformer, rotary", True), ("transformer, shaw, window", False)],
)
def test_a_storm_of_requests_is_answered_as_each_alone(name: str, looks_ahead: bool) -> None:
    torch.set_num_threads(1)
    model, draw = random_model(name, VOCAB), random.Random(7)
    pool = [random_job(draw) for _ in range(REQUESTS // 5)]
    engine = Engine(model, slots=8, chunk=16, queue=20)
    engine._looks_ahead = looks_ahead  # as on a GPU
    engine.start()
    clients = [Client(engine, draw.choices(pool, k=REQUESTS // THREADS), seed) for seed in range(THREADS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(600)
        assert not client.is_alive()
    known: dict[Job, list[int]] = {}
    reasons = {"stop": 0, "length": 0, "cancelled": 0}
    for one, events in (answer for client in clients for answer in client.answers):
        *written, last = events
        assert isinstance(last, Finished)
        reasons[last.reason] += 1
        text = right(model, one, known)
        until = next((n for n, id in enumerate(text) if id in one.ends), len(text))
        ids = [event.id for event in written]  # type: ignore[union-attr]
        assert ids == (text[: len(ids)] if last.reason == "cancelled" else text[:until])
    engine.close()
    facts = engine.facts()
    assert all(reasons.values())
    assert {reason: facts[reason] for reason in reasons} == reasons
    assert (facts["running"], facts["waiting"], facts["failed"]) == (0, 0, 0)
    assert facts["jobs"] == sum(reasons.values())
    if name.startswith("transformer"):  # other memories are only used whole, which chance decides
        assert facts["prefix_hits"] > 0


@pytest.mark.long
def test_memory_does_not_grow_in_a_storm() -> None:
    """Measured by the operating system, over more and more requests."""
    torch.set_num_threads(1)
    model, draw = random_model("transformer, rotary", VOCAB, torch.float32), random.Random(7)
    engine = Engine(model, slots=8, chunk=16, queue=20)
    engine.start()
    sizes = []
    for round in range(6):
        clients = [Client(engine, [random_job(draw) for _ in range(REQUESTS // 20)], seed + 10 * round) for seed in range(4)]
        for client in clients:
            client.start()
        for client in clients:
            client.join(600)
        del clients
        gc.collect()
        sizes.append(psutil.Process().memory_info().rss)
    engine.close()
    assert sizes[-1] - sizes[2] < 2**24
