"""A server whose engine is a process: the same answers, and it recovers when that process is killed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from http_servers import serving

import firth
from firth.decoding.engine.process import EngineProcess
from firth.errors import ConfigError
from firth.serving.http.keys import Keys
from firth.serving.http.limits import Limits
from firth.serving.http.models import Models, ServedModel
from firth.serving.http.server import listen, serve
from firth.tasks.next_token import LanguageModelRun


@pytest.mark.long
def test_it_answers_and_recovers(char_run: Path) -> None:
    prompt = {"model": "char", "prompt": "the", "temperature": 0}
    expected = firth.load(char_run, kind=LanguageModelRun).generate("the", tokens=20, temperature=0)
    with serving(char_run, apart=True) as served:
        engine = next(iter(served.models)).engine
        assert isinstance(engine, EngineProcess)
        assert served.post("/v1/completions", {**prompt, "max_tokens": 20}).json["choices"][0]["text"] == expected
        assert served.post("/v1/embeddings", {"model": "char", "input": "the"}).status == 200  # with the weights in this process

        stream = served.open("/v1/completions", {**prompt, "max_tokens": 4000, "stream": True})
        stream.readline()
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
        with stream:
            assert '"restarting"' in stream.read().decode()
        down = served.get("/health")
        assert (down.status, down.error["code"]) == (503, "restarting")
        assert int(down.headers["retry-after"]) >= 1
        ends = time.monotonic() + 60
        while served.get("/health").status != 200:
            assert time.monotonic() < ends
            time.sleep(0.1)
        assert served.post("/v1/completions", {**prompt, "max_tokens": 20}).json["choices"][0]["text"] == expected
        assert 'firth_texts_total{end="lost",model="char"} 1.0' in served.get("/metrics").text


@pytest.mark.long
def test_an_engine_that_cannot_start_is_told(char_run: Path) -> None:
    """uvicorn would end without a word. The engine that has started is ended."""
    limits, run = Limits(), firth.load(char_run)
    well, ill = ServedModel("well", run, limits, apart=True), ServedModel("ill", run, limits, slots=0, apart=True)
    with listen("127.0.0.1", 0) as listener, pytest.raises(ConfigError, match="slots is 0; expected 1 or more"):
        serve(Models([well, ill]), listener, limits=limits, keys=Keys(), drain=1, ready=pytest.fail, draining=pytest.fail)
    assert not well.ready
