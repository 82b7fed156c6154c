"""A file that says that a process is alive, for processes on other machines: its owner rewrites it every few seconds.

Only changes are compared, never times, so clocks may differ. Locks of the file system would not do: some network file systems
have none, or keep them on each machine."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Literal

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

BEAT = 5.0  # seconds between two changes
SILENT = 60.0  # seconds without a change after which the owner counts as dead
LATE = 30.0  # seconds after which an owner that could not change its file must stop


class Pulse:
    """The file of an owner. With `lost`, others may replace an owner that is silent: it must stop as soon as that is called."""

    def __init__(self, path: Path, lost: Callable[[], object] | None = None) -> None:
        """Raises FileExistsError if somebody else owns the file."""
        self.path, self._lost, self._token = path, lost, uuid.uuid4().hex
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # `owner_is_dead` only looks after the first beat
        self._file = open(descriptor, "r+b", buffering=0)  # noqa: SIM115 (closed by `end`)
        self._beats, self._last = 0, time.monotonic()
        try:
            self._beat()
        except OSError:
            self._file.close()
            path.unlink()
            raise
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._live, name="pulse", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Remove the file, unless it belongs to somebody else by now."""
        self._ended.set()
        self._thread.join()
        self._file.close()
        with contextlib.suppress(OSError):
            if self._is_mine():
                self.path.unlink()

    def _live(self) -> None:
        while not self._ended.wait(BEAT):
            mine = True
            try:
                mine = self._is_mine()
                self._beat()
            except FileNotFoundError:
                mine = False
            except OSError:
                pass  # perhaps the next time
            if self._lost and (not mine or time.monotonic() - self._last > LATE):
                self._lost()
                return
            self._last = self._beaten

    def _beat(self) -> None:
        self._beats += 1
        self._file.seek(0)
        self._file.write(f"{machine()} {self._token} {self._beats:012}\n".encode())
        os.fsync(self._file.fileno())  # a network file system would keep it
        self._beaten = time.monotonic()

    def _is_mine(self) -> bool:
        return self._token.encode() in self.path.read_bytes()


class Watched:
    """The pulse of somebody else."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = b""
        self._since = time.monotonic()

    def look(self) -> Literal["alive", "silent", "gone"]:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return "gone"
        except OSError:
            content = self._seen  # no news
        if content != self._seen:
            self._seen, self._since = content, time.monotonic()
        return "silent" if time.monotonic() - self._since > SILENT else "alive"

    def is_dead(self) -> bool:
        """Whether the owner has ended without removing the file: it is silent, or was a process of this machine, whose lock the
        system has released."""
        return self.look() == "silent" or (self._seen.startswith(f"{machine()} ".encode()) and _is_unlocked(self.path))

    def remove(self) -> None:
        """Remove the file of a dead owner, but not that of a new one who has been faster."""
        aside = self.path.with_name(f"{self.path.name}-{uuid.uuid4().hex}")
        with contextlib.suppress(OSError):  # gone already
            os.rename(self.path, aside)
            try:
                if aside.read_bytes() != self._seen:
                    os.link(aside, self.path)
            finally:
                aside.unlink()


def _is_unlocked(path: Path) -> bool:
    try:
        with path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, AttributeError):  # locked, or Windows
        return False
    return True


@functools.cache
def machine() -> str:
    """A name of this machine since it was started; containers on it have the same one."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{platform.node()}-{uuid.getnode()}".replace(" ", "-")
