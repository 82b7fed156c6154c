"""An engine in a process of its own answers as one in this process does, and is started again when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from engine_jobs import SECONDS, VOCAB, Heard, alone, alone_numbered, asked, job, prompts
from small_models import CONFIGS, random_model

from firth.decoding.engine import restarts
from firth.decoding.engine.engine import Engine
from firth.decoding.engine.jobs import EngineClosed, EngineRestarts, QueueFull
from firth.decoding.engine.process import EngineProcess
from firth.errors import ConfigError
from firth.models import LanguageModel


@contextmanager
def apart(model: LanguageModel, **settings: Any) -> Iterator[EngineProcess]:
    engine = EngineProcess(model, **({"slots": 3} | settings))
    engine.start()
    try:
        yield engine
    finally:
        engine.close(drain=False)


def wait_until(true: Any) -> None:
    ends = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_it_answers_refuses_and_drains() -> None:
    """One process for all of this: it takes seconds to start."""
    model = random_model("transformer, rotary", VOCAB)
    engine = EngineProcess(model, slots=3, queue=4)
    with pytest.raises(EngineRestarts):  # not started yet
        engine.submit(job([1]), Heard())
    engine.start()
    jobs = [job(prompt, 20, seed=1, number=n % 2, temperature=float(n % 3)) for n, prompt in enumerate(prompts(7, 9))]
    assert [heard.ids() for heard in [asked(engine, one) for one in jobs]] == [alone_numbered(model, one) for one in jobs]

    scored = job([1, 2, 3], 4, top=2, score_prompt=True)
    own = Engine(model)
    expected = asked(own, scored)
    own.close()
    assert asked(engine, scored).written() == expected.written()

    ends = job([1, 2], 20, ends=tuple(range(VOCAB)))
    assert asked(engine, ends).finished().reason == "stop"
    with pytest.raises(ConfigError, match="not in the vocabulary"):
        engine.submit(job([VOCAB]), Heard())

    long = job([1, 2], 100_000)
    heard = [Heard() for _ in range(7)]
    tickets = [engine.submit(long, one) for one in heard]
    with pytest.raises(QueueFull, match="4 requests"):
        engine.submit(long, Heard())
    assert (engine.facts()["running"], engine.facts()["waiting"]) == (3, 4)
    heard[0].begun()
    for ticket in tickets:
        ticket.cancel()
    assert {one.finished().reason for one in heard} == {"cancelled"}
    facts = engine.facts()
    assert (facts["running"], facts["waiting"], facts["cancelled"], facts["jobs"]) == (0, 0, 7, 16)

    last = asked(engine, job([3], 50))
    engine.close()
    assert last.finished().reason == "length"
    assert last.ids() == alone(model, job([3], 50))
    with pytest.raises(EngineClosed):
        engine.submit(job([1]), Heard())


@pytest.mark.long
@pytest.mark.parametrize("name", CONFIGS)
def test_every_model_can_be_sent_to_a_process(name: str) -> None:
    model = random_model(name, VOCAB)
    jobs = [job(prompt, 20) for prompt in prompts(4, 16)]
    with apart(model) as engine:
        assert [heard.ids() for heard in [asked(engine, one) for one in jobs]] == [alone(model, one) for one in jobs]


@pytest.mark.long
def test_a_process_that_is_killed_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "_LEAST", 0.05)
    model = random_model("gru", VOCAB)
    with apart(model) as engine:
        assert asked(engine, job([4], 3)).finished().reason == "length"
        for round in (1, 2):
            slots = [asked(engine, job([1, 2], 1_000_000)).begun() for _ in range(engine.slots)]
            waits = asked(engine, job([1, 2], 9))
            assert engine.pid is not None
            os.kill(engine.pid, signal.SIGKILL)
            assert {one.finished().reason for one in slots} == {"lost"}
            down = engine.facts()
            assert (down["length"], down["jobs"]) == (2 * round - 1, 5 * round)  # nothing counts down meanwhile
            assert down["tokens_generated"] >= 3
            wait_until(lambda: engine.ready)
            assert waits.ids() == alone(model, job([1, 2], 9))  # as if there had been no other engine
            assert asked(engine, job([4, 5], 9)).ids() == alone(model, job([4, 5], 9))
            facts = engine.facts()
            assert (facts["lost"], facts["length"], facts["running"]) == (len(slots) * round, 1 + 2 * round, 0)


def test_one_that_was_never_started_can_be_closed() -> None:
    EngineProcess(random_model("gru", VOCAB)).close()


@pytest.mark.long
def test_a_process_that_cannot_start_says_why() -> None:
    engine = EngineProcess(random_model("gru", VOCAB), slots=0)
    with pytest.raises(ConfigError, match="slots is 0; expected 1 or more"):
        engine.start()


SERVES = """
import time
from small_models import random_model
from firth.decoding.engine.process import EngineProcess

if __name__ == "__main__":
    engine = EngineProcess(random_model("gru", 23))
    engine.start()
    print(engine.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.long
def test_it_does_not_outlive_the_process_that_serves(tmp_path: Path) -> None:
    script = tmp_path / "serves.py"
    script.write_text(SERVES)
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}) as serving:
        assert serving.stdout is not None
        pid = int(serving.stdout.readline())
        assert _lives(pid)
        serving.kill()
    wait_until(lambda: not _lives(pid))


def _lives(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
