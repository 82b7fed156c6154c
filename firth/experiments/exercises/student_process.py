"""Runs a student's function in a process of its own, with limits of time, memory and output.

The limits stop mistakes: an endless loop, too much memory, too much output. They are no sandbox against an attacker.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from firth.errors import FirthError
from firth.experiments.exercises import answers, child
from firth.experiments.exercises.exercise import Case

try:
    import pwd
except ImportError:  # Windows
    pwd = None  # type: ignore[assignment]

MEMORY = 2 << 30  # bytes beyond those of Python, NumPy and torch
OUTPUT = 4000  # bytes of what the student's code prints
_ANSWERS = 16 << 20  # bytes of all answers together
_STARTING = 300.0  # seconds to import NumPy and torch, also on a busy machine
_LOOK_EVERY = 0.2  # seconds
_ENDING = 2.0  # seconds to end after the last answer
_ORPHAN = 60.0  # seconds of processor time beyond its own, after which a process ends whose parent was killed
_KEPT_VARIABLES = ("SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TZ", "LANG")


@dataclass
class Ran:
    """What became of the process."""

    outcomes: list[dict[str, Any]] = field(default_factory=list)
    stopped: dict[str, Any] | None = None  # the reason that the process gave
    ready: bool = False  # the imports are done
    timed_out: bool = False
    code: int = 0  # its exit status; negative: the signal that ended it
    printed: str = ""


@dataclass(frozen=True)
class Walls:
    """What a stranger's file may not do, beyond the limits of one's own: it reads nothing but its own folder and what is
    installed."""

    protected: Mapping[str, str]  # folders, and what a verdict calls them
    user: str | None = None  # of the process; it needs a firth that runs as root
    stop: threading.Event = field(default_factory=threading.Event)  # ends all processes, see Stopped


class Stopped(Exception):
    """The processes were told to stop."""


def run(path: Path, function: str, cases: Sequence[Case], seconds: float, walls: Walls | None = None) -> Ran:
    """Call the function of the file for every case. The time begins when the imports are done."""
    process = _started(path, walls)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    lines: queue.Queue[bytes] = queue.Queue()
    printed = bytearray()
    readers = [
        threading.Thread(target=_read_lines, args=(process.stdout, lines), daemon=True),
        threading.Thread(target=_read_some, args=(process.stderr, printed), daemon=True),
    ]
    for reader in readers:
        reader.start()
    encoded = [[child.encoded(one) for one in case] for case in cases]
    behind = walls and {"own": str(path.resolve().parent), "protected": dict(walls.protected)}
    limits = {"memory": MEMORY, "processor_seconds": math.ceil(seconds + _ORPHAN)}
    request = {"path": str(path.resolve()), "function": function, "cases": encoded, "walls": behind, **limits}
    with contextlib.suppress(OSError), process.stdin:
        process.stdin.write(json.dumps(request).encode() + b"\n")
    ran = Ran()
    try:
        _follow(ran, lines, cases, seconds, walls.stop if walls else threading.Event())
    finally:
        ran.code = _ended(process, 0 if ran.timed_out else _ENDING)
    for reader, stream in zip(readers, (process.stdout, process.stderr), strict=True):
        reader.join(_ENDING)
        if not reader.is_alive():
            stream.close()
    ran.printed = bytes(printed).decode(errors="replace")
    if not ran.ready:
        last = (ran.printed.splitlines() or ["it took too long"])[-1]
        raise FirthError(f"the process for your function did not start: {last}")
    return ran


def _started(path: Path, walls: Walls | None) -> subprocess.Popen[bytes]:
    group: dict[str, Any] = {"process_group": 0} if os.name == "posix" else {}
    if walls is not None:
        group["cwd"] = path.resolve().parent
        group |= as_user(walls.user)
    environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    try:
        return subprocess.Popen(
            [sys.executable or "python3", "-I", str(Path(child.__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environment, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            **group,
        )
    except OSError as error:
        raise FirthError(f"the process for your function did not start: {error}") from error


def as_user(name: str | None) -> dict[str, Any]:
    """The arguments of Popen for a process of another user, who has no groups but their own."""
    return {} if name is None else {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []}


def _follow(ran: Ran, lines: queue.Queue[bytes], cases: Sequence[Case], seconds: float, stop: threading.Event) -> None:
    """Read the answers until the last one, the end of the process, or the end of the time."""
    until = time.monotonic() + _STARTING
    while len(ran.outcomes) < len(cases) and ran.stopped is None:
        try:
            line = lines.get(timeout=min(_LOOK_EVERY, max(0.0, until - time.monotonic())))
        except queue.Empty:
            if stop.is_set():
                raise Stopped from None
            if time.monotonic() < until:
                continue
            ran.timed_out = True
            return
        answer = answers.read(line, len(cases[len(ran.outcomes)]))
        if answer is None:
            return  # cut off because the process ended, or written by the student's code
        if "ready" in answer:
            ran.ready, until = True, time.monotonic() + seconds
        elif "stopped" in answer:
            ran.stopped = answer["stopped"]
        else:
            ran.outcomes.append(answer)


def _read_lines(stream: IO[bytes], lines: queue.Queue[bytes]) -> None:
    """As far as all answers together may reach; a process that writes more waits, until its time is up."""
    left = _ANSWERS
    with contextlib.suppress(OSError, ValueError):
        while line := stream.readline(left):
            lines.put(line)
            left -= len(line)
    lines.put(b"")


def _read_some(stream: IO[bytes], kept: bytearray) -> None:
    """Read all, so that the process never waits, and keep the beginning."""
    with contextlib.suppress(OSError, ValueError):
        while chunk := os.read(stream.fileno(), 1 << 16):
            kept += chunk[: max(0, OUTPUT - len(kept))]


def _ended(process: subprocess.Popen[bytes], seconds: float) -> int:
    """The exit status. A process that runs for longer is killed with its group."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(seconds)
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL) if os.name == "posix" else process.kill()
    return process.wait()
