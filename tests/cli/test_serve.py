"""`firth serve`: what it takes, what it says, how it ends."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from shell import Firth
from tiny_runs import firth_process

READY = re.compile(r"Serving char at (http://127\.0\.0\.1:\d+)/v1 \(see \1/docs; Ctrl-C ends it\)\n")


@contextmanager
def server(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = firth_process("serve", *map(str, arguments), "--port", "0", "--device", "cpu")
    assert process.stdout is not None
    try:
        ready = READY.fullmatch(process.stdout.readline())
        assert ready, process.communicate()
        yield process, ready[1]
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def post(address: str, body: dict[str, Any], *, lost: bool = False) -> Any:
    """`lost`: the connection may end before the response."""
    request = urllib.request.Request(f"{address}/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    with contextlib.suppress(*[OSError, http.client.HTTPException] * lost), urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM for another process")
def test_sigterm_ends_the_server_when_the_requests_in_work_are_answered(char_run: Path) -> None:
    with server(char_run, "--max-tokens", "100000") as (process, address):
        body = {"prompt": "the", "max_tokens": 1500, "temperature": 0}
        answers: list[Any] = []
        client = threading.Thread(target=lambda: answers.append(post(address, body)))
        client.start()
        while not json.load(urllib.request.urlopen(f"{address}/health"))["running"]:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        client.join(10)
    assert answers[0]["usage"]["completion_tokens"] == 1500
    assert (process.returncode, out) == (0, "The server has ended.\n")
    assert err == "firth: ending: no new requests; Ctrl-C again to end at once\n"


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for another process")
def test_a_second_ctrl_c_ends_it_at_once(char_run: Path) -> None:
    with server(char_run, "--max-tokens", "10000000") as (process, address):
        body = {"prompt": "the", "max_tokens": 10_000_000, "temperature": 0}
        threading.Thread(target=lambda: post(address, body, lost=True), daemon=True).start()
        while not json.load(urllib.request.urlopen(f"{address}/health"))["running"]:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "The server has ended.\n")
    assert "Traceback" not in err


def test_what_cannot_be_served_is_said_before_anything_is_loaded(
    firth: Firth, char_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FIRTH_API_KEY", raising=False)
    public = firth("serve", char_run, "--host", "0.0.0.0")
    assert (public.code, "there is no API key. Set FIRTH_API_KEY or --key-file" in public.err) == (2, True)
    missing = firth("serve", tmp_path / "none", "--port", 0)
    assert (missing.code, "does not exist; give a run" in missing.err) == (2, True)
    empty = firth("serve", tmp_path, "--port", 0)
    assert (empty.code, "contains no run" in empty.err) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = firth("serve", char_run, "--port", port)
    assert (refused.code, f"port {port} is taken; choose another with --port" in refused.err) == (2, True)
    nowhere = firth("serve", char_run, "--host", "::1", "--port", 0, "--key-file", tmp_path / "keys")
    assert (nowhere.code, "keys cannot be read" in nowhere.err) == (2, True)
