"""Real processes that run `firth …`, forked from one that has imported torch: each starts in milliseconds, not seconds."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tiny_runs import steps_saved

PATIENCE = 120  # seconds to wait for something that must happen; only a broken run waits so long

_NURSE = """
import json, os, sys
import torch._dynamo, safetensors.torch, rich.progress
import firth.api, firth.cli.verbs, firth.cli.train, firth.progress.display, firth.cli.translate, firth.vectors.trainer
from firth.cli import main
for line in sys.stdin:
    order = json.loads(line)
    if "pid" in order:
        pid, status = os.waitpid(order["pid"], os.WNOHANG)
        print(json.dumps(os.waitstatus_to_exitcode(status) if pid else None), flush=True)
        continue
    pid = os.fork()
    if not pid:
        os.dup2(os.open(order["stderr"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.dup2(2, 1)
        os.environ.update(order["environment"])
        sys.argv = ["firth", *order["arguments"]]
        try:
            main()
        except SystemExit as end:  # not through Python's own clearing up, which takes a second where so much is imported
            sys.stderr.flush()
            os._exit(end.code or 0)
    print(json.dumps(pid), flush=True)
"""


class Child:
    """One `firth …`."""

    def __init__(self, nursery: Nursery, stderr: Path, arguments: list[str], environment: dict[str, str]) -> None:
        self._nursery, self._stderr = nursery, stderr
        pid = nursery.ask({"stderr": str(stderr), "arguments": arguments, "environment": environment})
        assert pid
        self.pid = pid
        self.code: int | None = None

    def ended(self) -> bool:
        if self.code is None:
            self.code = self._nursery.ask({"pid": self.pid})
        return self.code is not None

    def send(self, number: int) -> None:
        if not self.ended():  # not yet waited for, so the number is still its own
            os.kill(self.pid, number)

    def reaches(self, run: Path, step: int) -> None:
        """Wait for a checkpoint of `step` or later, and see that the run goes on from where it was, not from its start."""
        highest = newest(run)

        def arrived() -> bool:
            nonlocal highest
            now = newest(run)
            assert not 0 < now < highest // 2, f"the run fell back from step {highest} to {now}"
            highest = max(highest, now)
            return highest >= step or self.ended()

        self._until(arrived, f"a checkpoint of step {step}")
        assert highest >= step or newest(run) >= step, f"ended with {self.code} before step {step}: {self.said()}"

    def wait(self) -> int:
        self._until(self.ended, "the end of a process")
        assert self.code is not None
        return self.code

    def said(self) -> str:
        return self._stderr.read_text(encoding="utf-8")

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > end:
                self.send(signal.SIGKILL)
                raise AssertionError(f"waited {PATIENCE} s for {what}: {self.said()}")
            time.sleep(0.002)


def newest(run: Path) -> int:
    return max(steps_saved(run), default=0)


class Nursery:
    def __init__(self, nurse: subprocess.Popen[str], folder: Path) -> None:
        self._nurse, self._folder, self._born = nurse, folder, 0

    def start(self, *arguments: str | Path, **environment: str) -> Child:
        """`firth ARGUMENTS` with these variables in its environment."""
        self._born += 1
        return Child(self, self._folder / f"{self._born}.stderr", [str(argument) for argument in arguments], environment)

    def ask(self, order: dict[str, object]) -> int | None:
        assert self._nurse.stdin is not None
        assert self._nurse.stdout is not None
        print(json.dumps(order), file=self._nurse.stdin, flush=True)
        answer = json.loads(self._nurse.stdout.readline())
        assert answer is None or isinstance(answer, int)
        return answer


@contextlib.contextmanager
def nursery_in(folder: Path) -> Iterator[Nursery]:
    with subprocess.Popen(
        [sys.executable, "-c", _NURSE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as nurse:
        yield Nursery(nurse, folder)
