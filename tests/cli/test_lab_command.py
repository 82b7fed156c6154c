"""`firth lab`: where it serves, what it takes, how it ends."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from shell import Firth, assert_refused
from tiny_runs import firth_process

ADDRESS = re.compile(r"The lab is open at (http://127\.0\.0\.1:\d+/)\?token=([\w-]{32}) \(Ctrl-C closes it\)\n")


@contextmanager
def lab(*arguments: object, cwd: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """The process, its address and its token. It is ended at the end, if it has not been."""
    before = f"import os; os.chdir({str(cwd)!r}); import sys; sys.argv[0] = 'firth'"
    process = firth_process("lab", *map(str, arguments), "--no-open", before=before)
    assert process.stdout is not None
    try:
        ready = ADDRESS.fullmatch(process.stdout.readline())
        assert ready, process.communicate()
        yield process, ready[1], ready[2]
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def told(address: str, token: str) -> dict[str, Any]:
    request = urllib.request.Request(f"{address}api/lab", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request) as answer:
        contents: dict[str, Any] = json.load(answer)
    return contents


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for another process")
def test_a_class_joins_with_the_code_and_ctrl_c_closes_both_servers(char_run: Path) -> None:
    process = firth_process("lab", str(char_run), "--classroom", "--no-open", "--port", "0")
    assert process.stdout is not None
    try:
        joining = re.fullmatch(r"Students join at http://[^/]+:(\d+) with the code (\w{6})\n", process.stdout.readline())
        assert joining
        assert "The lab is open" in process.stdout.readline()
        with urllib.request.urlopen(f"http://127.0.0.1:{joining[1]}/api/question?code={joining[2]}") as answer:
            assert json.load(answer)["options"] == []
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert (out, err) == ("The lab is closed.\n", "")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for another process")
def test_it_takes_the_next_port_shows_the_tour_and_ends_by_ctrl_c(char_run: Path, tmp_path: Path) -> None:
    shutil.copytree(char_run, tmp_path / "tour" / "runs" / "gru")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with lab("--port", port, cwd=tmp_path) as (process, address, token):
            assert address != f"http://127.0.0.1:{port}/"
            assert [run["name"] for run in told(address, token)["runs"]] == ["gru"]
            with pytest.raises(
                urllib.error.HTTPError, match="401"
            ):  # as another user of the machine, who was not shown the token
                urllib.request.urlopen(f"{address}api/lab")
            with pytest.raises(urllib.error.HTTPError, match="431") as refused:  # the limits of `firth serve`
                urllib.request.urlopen(urllib.request.Request(address, headers={"a": "x" * 8192}))
            assert "more than 8,192 bytes" in json.load(refused.value)["error"]
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out == "The lab is closed.\n"
    assert err.splitlines()[0] == f"firth: note: port {port} is taken; trying the next"
    assert "Traceback" not in err


def test_it_takes_runs_and_vectors_and_says_where_there_are_none(
    firth: Firth, char_run: Path, tmp_path: Path, served: Served
) -> None:
    (tmp_path / "v.firth").touch()
    refused = firth("lab", char_run, "--vectors", tmp_path / "v.firth", "--no-open", "--port", 0)
    assert (refused.code, "v.firth is empty; give word vectors" in refused.err) == (2, True)
    (tmp_path / "v.firth").write_bytes(b"1 1\na 1\n")
    assert firth("lab", char_run, "--vectors", tmp_path / "v.firth", "--no-open", "--port", 0).code == 0
    (library,) = served
    assert list(library.runs) == ["char"]
    assert list(library.vectors) == ["v.firth"]


Served = list[Any]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    """The libraries of the labs that were not served."""
    from firth.cli import lab as verb

    libraries: Served = []
    monkeypatch.setattr(
        verb, "_serve", lambda library, listener, address, token, open_browser: (libraries.append(library), listener.close())
    )
    return libraries


def test_without_anything_it_opens_and_says_so(
    firth: Firth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: Served
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = firth("lab", "--no-open", "--port", 0)
    assert answer.code == 0
    assert "there is no run in ./tour or ./runs" in answer.err
    assert not served[0].runs


def test_by_default_it_shows_the_runs_here_and_vectors_need_no_option(
    firth: Firth, char_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: Served
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(char_run, "runs/mine")
    Path("v.firth").write_bytes(b"1 1\na 1\n")
    assert firth("lab", "--no-open", "--port", 0).code == 0
    assert firth("lab", "runs", "v.firth", "--no-open", "--port", 0).code == 0
    assert [list(library.runs) for library in served] == [["mine"], ["mine"]]
    assert list(served[1].vectors) == ["v.firth"]


def test_what_is_no_run_is_refused_in_one_line(firth: Firth, tmp_path: Path, served: Served) -> None:
    for path, message in (
        (tmp_path / "absent", "is not a folder; give a run"),
        (tmp_path, "contains no run"),
    ):
        assert_refused(firth("lab", path, "--no-open"), message)
    answer = firth("lab", "--vectors", tmp_path / "absent.firth", "--no-open")
    assert answer.code == 2
    assert "is not a file; give word vectors" in answer.err
    answer = firth("lab", "--corpus", "wiki9", "--no-open")
    assert answer.code == 2
    assert 'there is no file or data set "wiki9". Did you mean "wiki8"?' in answer.err
    assert not served


def test_the_browser_is_opened_unless_it_is_not_wanted(firth: Firth, monkeypatch: pytest.MonkeyPatch) -> None:
    import webbrowser

    import uvicorn

    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)

    def run(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
        monkeypatch.setattr(uvicorn.Server, "startup", _nothing)
        with pytest.raises(StopIteration):  # a coroutine that waits for nothing needs no loop
            type(server).startup(server, sockets).send(None)

    monkeypatch.setattr(uvicorn.Server, "run", run)
    assert firth("lab", "--port", 0).code == 0
    assert len(opened) == 1
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", opened[0])
    assert firth("lab", "--port", 0, "--no-open").code == 0
    assert len(opened) == 1


def test_ctrl_c_is_how_a_lab_ends_however_uvicorn_tells_of_it(firth: Firth, monkeypatch: pytest.MonkeyPatch) -> None:
    import uvicorn

    def interrupted(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(uvicorn.Server, "run", interrupted)
    answer = firth("lab", "--port", 0, "--no-open")
    assert (answer.code, answer.out) == (0, "The lab is closed.\n")


async def _nothing(server: object, sockets: object = None) -> None: ...
