"""Workshop: the one training that the lab runs at a time, as a verb of firth in a process of its own.

The process belongs to the lab: it is stopped when the lab closes, after MOST_SECONDS, or by the page. Stopped, it saves its
weights as it does on Ctrl-C, and what it made can be opened.
"""

from __future__ import annotations

import atexit
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from firth.errors import ConfigError
from firth.serving.lab.trainings import Lines, TrainingKind, read_log

FOLDER = Path("runs")  # in the folder where the lab was started, as in README
MOST_SECONDS = 600.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_ENDED = (0, -signal.SIGTERM, 128 + signal.SIGTERM, 128 + signal.SIGINT)  # by itself, or because it was asked to
_GRACE = 10  # seconds that a training has to save when the lab closes


@dataclass(frozen=True)
class StartedTraining:
    """A training that was started, and its process."""

    name: str
    path: Path  # what it makes
    training: TrainingKind
    process: subprocess.Popen[bytes]
    said: IO[bytes]  # what it wrote to standard error
    began: float
    limit: threading.Timer

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def ready(self) -> bool:
        """True if it has made something that can be opened."""
        return self.training.ready(self.path)

    @property
    def lines(self) -> Lines:
        """Its log so far."""
        return read_log(self.training, self.path)

    def error(self) -> str:
        """The last line of a training that failed; "" if it did not, or was stopped."""
        code = self.process.poll()
        if code is None or code in _ENDED:
            return ""
        self.said.seek(0)
        lines = self.said.read().decode("utf-8", "replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), f"the training ended with code {code}")


class Workshop:
    def __init__(self, folder: Path = FOLDER, most_seconds: float = MOST_SECONDS) -> None:
        self.folder = folder
        self.most_seconds = most_seconds
        self.job: StartedTraining | None = None
        self._lock = threading.Lock()

    def free(self, name: str, suffix: str = "") -> str:
        """`name`, or with a number behind it if there is something of that name."""
        names = itertools.chain([name], (f"{name}-{n}" for n in itertools.count(2)))
        return next(one for one in names if not (self.folder / f"{one}{suffix}").exists())

    def start(self, training: TrainingKind, name: str) -> StartedTraining:
        """Begin a training under a name, which must be new. A second training at the same time is refused."""
        if not _NAME.fullmatch(name):
            raise ConfigError(f'"{name[:60]}" is not a valid name for a run; use up to 40 letters, digits, "-" and "_"')
        with self._lock:
            if self.job is not None and self.job.running:
                raise ConfigError(f'"{self.job.name}" is still training; wait until it ends, or stop it')
            path = self.folder / f"{name}{training.suffix}"
            if path.exists():
                raise ConfigError(f"{path} exists already; choose another name")
            self.folder.mkdir(parents=True, exist_ok=True)
            self.job = self._begin(training, name, path)
        return self.job

    def _begin(self, training: TrainingKind, name: str, path: Path) -> StartedTraining:
        said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the job
        threads = str(max(1, (os.cpu_count() or 2) // 2))  # the other rooms work on
        process = subprocess.Popen(
            [sys.executable, "-m", "firth", *training.arguments(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            env={"OMP_NUM_THREADS": threads, **os.environ},
        )
        limit = threading.Timer(self.most_seconds, process.terminate)
        limit.daemon = True
        limit.start()
        atexit.register(_end, process)
        return StartedTraining(name, path, training, process, said, time.monotonic(), limit)

    def stop(self) -> None:
        """Ask the training to save and end; nothing if there is none."""
        with self._lock:
            if self.job is not None and self.job.running:
                self.job.limit.cancel()
                self.job.process.terminate()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
