"""Workshop: the one training that the lab runs at a time, as `firth train` in a process of its own.

The process belongs to the lab: it is stopped when the lab closes, after MOST_SECONDS, or by the page. Stopped, it saves its
weights as it does on Ctrl-C, and the run can be opened.
"""

from __future__ import annotations

import atexit
import itertools
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from firth import files
from firth.errors import ConfigError

if TYPE_CHECKING:
    from firth.api import Recipe

FOLDER = Path("runs")  # in the folder where the lab was started, as in README
MOST_SECONDS = 600.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_GRACE = 10  # seconds that a training has to save when the lab closes


@dataclass(frozen=True)
class Job:
    """A training that was started, and its process."""

    name: str
    path: Path
    process: subprocess.Popen[bytes]
    said: IO[bytes]  # what it wrote to standard error
    began: float
    limit: threading.Timer

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def error(self) -> str:
        """The last line of a training that failed; "" if it did not, or was stopped."""
        code = self.process.poll()
        if code is None or code in (0, -15, 128 + 15):
            return ""
        self.said.seek(0)
        lines = self.said.read().decode("utf-8", "replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), f"firth train ended with code {code}")


class Workshop:
    def __init__(self, folder: Path = FOLDER, most_seconds: float = MOST_SECONDS) -> None:
        self.folder = folder
        self.most_seconds = most_seconds
        self.job: Job | None = None
        self._lock = threading.Lock()

    def free(self, name: str) -> str:
        """`name`, or with a number behind it if that folder exists."""
        names = itertools.chain([name], (f"{name}-{n}" for n in itertools.count(2)))
        return next(one for one in names if not (self.folder / one).exists())

    def start(self, recipe: Recipe, name: str) -> Job:
        """Begin to train `recipe` into the folder `name`, which must be new. A second training at the same time is refused."""
        if not _NAME.fullmatch(name):
            raise ConfigError(f'"{name[:60]}" is no name of a run; use up to 40 letters, digits, "-" and "_"')
        with self._lock:
            if self.job is not None and self.job.running:
                raise ConfigError(f'"{self.job.name}" is still training; wait until it ends, or stop it')
            path = self.folder / name
            if path.exists():
                raise ConfigError(f"{path} exists already; choose another name")
            self.folder.mkdir(parents=True, exist_ok=True)
            written = self.folder / f"{name}.toml"
            files.write_text(written, recipe.toml())
            self.job = self._begin(written, path)
        return self.job

    def _begin(self, recipe: Path, path: Path) -> Job:
        said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the job
        threads = str(max(1, (os.cpu_count() or 2) // 2))  # the other rooms work on
        process = subprocess.Popen(
            [sys.executable, "-m", "firth", "train", str(recipe), "--out", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            env={"OMP_NUM_THREADS": threads, **os.environ},
        )
        limit = threading.Timer(self.most_seconds, process.terminate)
        limit.daemon = True
        limit.start()
        atexit.register(_end, process)
        return Job(path.name, path, process, said, time.monotonic(), limit)

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
