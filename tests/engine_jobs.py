"""Jobs for the engine, what it delivers, and the same answers without it."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from firth.decoding.config import DecodingConfig
from firth.decoding.engine.engine import Engine, Event, Finished, GeneratedToken, Job
from firth.decoding.generate import generate
from firth.models import LanguageModel

VOCAB, CONTEXT = 23, 12
SECONDS = 60.0


class Heard:
    """The events of one job."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.calls = 0
        self._done, self._some = threading.Event(), threading.Event()

    def __call__(self, events: list[Event]) -> None:
        self.events += events
        self.calls += 1
        self._some.set()
        if isinstance(events[-1], Finished):
            self._done.set()

    def over(self) -> bool:
        return self._done.is_set()

    def begun(self) -> Heard:
        assert self._some.wait(SECONDS)
        return self

    def finished(self) -> Finished:
        assert self._done.wait(SECONDS)
        last = self.events[-1]
        assert isinstance(last, Finished)
        assert not any(isinstance(event, Finished) for event in self.events[:-1])
        return last

    def written(self) -> list[GeneratedToken]:
        self.finished()
        return [event for event in self.events if isinstance(event, GeneratedToken)]

    def ids(self) -> list[int]:
        return [event.id for event in self.written()]


@contextmanager
def running(model: LanguageModel, **settings: Any) -> Iterator[Engine]:
    engine = Engine(model, **({"slots": 3, "chunk": 4} | settings))
    engine.start()
    try:
        yield engine
    finally:
        engine.close(drain=False)


def job(prompt: list[int], tokens: int = 8, **settings: Any) -> Job:
    of_job = {
        name: settings.pop(name) for name in ("ends", "top", "number", "score_prompt", "continues", "seconds") if name in settings
    }
    return Job(tuple(prompt), DecodingConfig(tokens=tokens, **({"temperature": 0.0} | settings)), **of_job)


def asked(engine: Engine, job: Job) -> Heard:
    heard = Heard()
    engine.submit(job, heard)
    return heard


def alone(model: LanguageModel, job: Job) -> list[int]:
    return [int(token_B) for token_B in generate(model, torch.tensor([job.prompt]), job.config)]


def alone_numbered(model: LanguageModel, job: Job) -> list[int]:
    """As `alone`, for texts with a number, whose draws are those of that row in `generate`."""
    rows = torch.tensor([job.prompt]).expand(job.number + 1, -1)
    return [int(token_B[-1]) for token_B in generate(model, rows, job.config)]


def by_turns(engine: Engine, *heard: Heard) -> None:
    """Let an engine without a thread work until all of `heard` are finished."""
    while not all(one.over() for one in heard):
        engine.turn()


def prompts(count: int, longest: int, seed: int = 0) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(VOCAB) for _ in range(draw.randint(1, longest))] for _ in range(count)]
