"""Run chat templates in processes of their own: a template is untrusted code, and only the operating system can limit its time
and memory reliably.

The first template starts a process (a fifth of a second), which then serves all of them, one request at a time. While it is busy,
others are started, up to WORKERS. A process that was stopped is replaced.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from firth.errors import DataError, FirthError
from firth.text.template_frames import MEMORY, PROCESSOR_SECONDS, SECONDS, parse_frame, read_frame, write_frame

WORKERS = 4
_STARTING = 60.0  # seconds for a process to start, also on a busy machine
_LOOK = 0.02  # seconds between two checks of a process's memory, if the system cannot limit it
_PROGRAM = "import sys; sys.path += sys.argv[1:]; from firth.text.template_worker import main; main()"
_KEPT_VARIABLES = ("TZ", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """The answer of a process to `request`. A template that does not keep to the limits is a DataError."""
    return _pool.ask(request)


class _Stopped(Exception):
    """The process ended before it answered."""


class _Worker:
    """One process. `ask` is for one thread at a time."""

    def __init__(self) -> None:
        group: dict[str, Any] = {"process_group": 0} if os.name == "posix" else {}  # so that Ctrl-C only reaches firth
        try:
            self.process = subprocess.Popen(
                [sys.executable or "python3", "-I", "-S", "-c", _PROGRAM, *_folders()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
                **group,
            )
        except OSError as error:
            raise FirthError(f"the process for chat templates did not start: {error}") from error
        self.limits: dict[str, int] = {}
        self.last = self._looks = False
        try:
            told = self._answer(_STARTING)
        except BaseException as error:
            self.end()
            if isinstance(error, _Stopped):
                raise FirthError(f"the process for chat templates did not start: {error}") from error
            raise
        self.limits, self._looks = told["limits"], not told["memory_is_limited"]

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        answer = self._answer(SECONDS, request)
        self.last = answer["last"]
        return answer

    def _answer(self, seconds: float, request: dict[str, Any] | None = None) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        watch = _Watch(self.process, seconds, looks=self._looks)
        try:
            with contextlib.suppress(BrokenPipeError):
                if request is not None:
                    write_frame(self.process.stdin, request)
            body = read_frame(self.process.stdout)
        finally:
            watch.end()
        if watch.verdict is not None or body is None:
            raise _Stopped(watch.verdict or self._death())
        answer: dict[str, Any] = parse_frame(body)
        return answer

    def _death(self) -> str:
        self.process.kill()  # one that has closed its output
        code = self.process.wait()
        if -code == getattr(signal, "SIGPROF", None):
            return f"it takes longer than {PROCESSOR_SECONDS:g} second of processor time"
        return f"its process ended with the code {code}"

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.forget()

    def forget(self) -> None:
        """Close the pipes without writing to them: a fork shares them with its parent. The process then ends by itself."""
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                stream.raw.close()  # type: ignore[union-attr]  # typed as the IO of any file
        if self.process.returncode is None:
            self.process.returncode = 0  # a fork must not wait for it


class _Watch:
    """Ends a process that takes too long or, if the system cannot limit it (macOS), too much memory."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float, *, looks: bool) -> None:
        self._process, self._seconds, self._looks = process, seconds, looks
        self._done, self._lock = threading.Event(), threading.Lock()
        self.verdict: str | None = None
        threading.Thread(target=self._watch, name="watch over a chat template", daemon=True).start()

    def _watch(self) -> None:
        until = time.monotonic() + self._seconds
        while (left := until - time.monotonic()) > 0:
            if self._done.wait(min(left, _LOOK) if self._looks else left):
                return
            if self._looks and resident_bytes(self._process.pid) > MEMORY:
                self._stop(f"it needs more than {MEMORY >> 20} MB of memory")
                return
        self._stop(f"it takes longer than {self._seconds:g} seconds")

    def _stop(self, why: str) -> None:
        with self._lock:
            if not self._done.is_set():
                self.verdict = why
                self._process.kill()

    def end(self) -> None:
        """Stop watching."""
        with self._lock:
            self._done.set()


def resident_bytes(process: int) -> int:
    """Memory of a process; 0 where there is no `ps` (Windows)."""
    try:
        kilobytes = subprocess.run(["ps", "-o", "rss=", "-p", str(process)], capture_output=True, check=False, timeout=1).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    return int(kilobytes) * 1024 if kilobytes.strip().isdigit() else 0


class _Pool:
    def __init__(self) -> None:
        self._room = threading.BoundedSemaphore(WORKERS)
        self._idle: list[_Worker] = []
        self.workers: set[_Worker] = set()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._room:
            worker = self._take()
            try:
                answer = worker.ask(request)
            except BaseException as error:  # also Ctrl-C: the process is still busy, and the next request would get its answer
                self._end(worker)
                if isinstance(error, _Stopped):
                    raise DataError(f"the chat template was stopped: {error}. Correct it.") from error
                raise
            if worker.last:
                self._end(worker)
            else:
                self._idle.append(worker)
            return answer

    def _take(self) -> _Worker:
        while True:
            try:
                worker = self._idle.pop()
            except IndexError:
                break
            if worker.process.poll() is None:
                return worker
            self._end(worker)
        worker = _Worker()
        self.workers.add(worker)
        return worker

    def _end(self, worker: _Worker) -> None:
        self.workers.discard(worker)
        worker.end()

    def close(self) -> None:
        for worker in list(self.workers):
            self._end(worker)
        self._idle.clear()


def _folders() -> list[str]:
    """The import path of the process: finding the installed packages by itself would take longer than everything else."""
    specs = [importlib.util.find_spec(name) for name in ("firth", "jinja2", "markupsafe")]
    return list(dict.fromkeys(str(Path(spec.origin).parents[1]) for spec in specs if spec is not None and spec.origin))


def _after_fork() -> None:
    """Forget the parent's processes after a fork."""
    global _pool
    inherited, _pool = _pool, _Pool()
    for worker in inherited.workers:
        worker.forget()


def _at_exit() -> None:
    _pool.close()


_pool = _Pool()
atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
