"""A task on another machine: what the first machine sends there, and what comes back."""

from __future__ import annotations

import contextlib
import os
import pickle
import platform
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth import ideas
from firth.errors import FirthError, Interrupted, RunError, option
from firth.experiments.clusters.pulse import Watched
from firth.experiments.workers import NICE, PATIENCE
from firth.version import __version__

_LOOK_EVERY = 1.0  # seconds
_TRIES = 10  # a network file system may need seconds to show a new file
_niced = False  # a process of Ray runs several tasks


@dataclass(frozen=True)
class Outcome:
    """How a task ended."""

    value: Any = None
    error: BaseException | None = None
    stopped: bool = False  # before its end, after its run was saved


@dataclass(frozen=True)
class Site:
    """What the processes of other machines need to know of the first one."""

    name: str
    folder: str  # in which its command was started
    sign: str  # a file beside the runs with its pulse; without it, they stop
    threads: int
    environment: dict[str, str]
    version: str

    @staticmethod
    def here(sign: Path, threads: int) -> Site:
        """This machine. Ideas of one's own are named in the environment."""
        own = {name: value for name, value in os.environ.items() if name.startswith("FIRTH_")}
        return Site(platform.node(), os.getcwd(), str(sign.absolute()), threads, own, __version__)

    def enter(self) -> None:
        """Make this process like those of the first machine."""
        if self.version != __version__:
            raise RunError(
                f"{platform.node()} has firth {__version__}, but the command runs firth {self.version}. Install the same version."
            )
        self._expect_shared()
        os.chdir(self.folder)
        os.environ.update(self.environment)
        ideas.use_installed()
        import torch

        torch.set_num_threads(self.threads)
        global _niced  # noqa: PLW0603
        if hasattr(os, "nice") and not _niced:
            os.nice(NICE)
            _niced = True

    def _expect_shared(self) -> None:
        sign = Path(self.sign)
        for n in range(_TRIES):
            if sign.exists():
                break
            if not sign.parent.is_dir() or n == _TRIES - 1:
                where = option("folder", "--out")
                raise RunError(
                    f"{platform.node()} does not see {sign.parent} of {self.name}. Choose a {where} that all machines share."
                )
            time.sleep(1)
        if not os.path.isdir(self.folder):
            raise RunError(
                f"{platform.node()} has no folder {self.folder}. Start the command in a folder that all machines share."
            )


@dataclass(frozen=True)
class RemoteCall:
    """A function and its arguments, read on the other machine once the ideas in use are known there."""

    site: Site
    pickled: bytes

    @staticmethod
    def of(site: Site, task: Callable[..., Any], *given: Any, **named: Any) -> RemoteCall:
        return RemoteCall(site, pickle.dumps((task, given, named)))

    def __call__(self) -> Outcome:
        try:
            with _stopped_by_signals(), _stopped_with(Watched(Path(self.site.sign))):
                self.site.enter()
                task, given, named = pickle.loads(self.pickled)
                return Outcome(task(*given, **named))
        except (KeyboardInterrupt, SystemExit, Interrupted):
            return Outcome(stopped=True)
        except FirthError as error:
            return Outcome(error=error)
        except Exception as error:
            error.add_note("".join(traceback.format_exception(error)))
            return Outcome(error=error)


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """SIGTERM, SIGINT (of Ray) and SIGUSR2 (of Slurm, before the time is up) end the task; a training saves first."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    handlers: dict[int, Any] = {signal.SIGINT: stop, signal.SIGTERM: stop}
    if hasattr(signal, "SIGUSR2"):
        handlers[signal.SIGUSR2] = lambda number, frame: signal.raise_signal(signal.SIGTERM)  # what a training has made of that
    if threading.current_thread() is not threading.main_thread():
        handlers = {}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _stopped_with(sign: Watched) -> Iterator[None]:
    """End the task when the first machine has removed its sign, or is silent."""
    done = threading.Event()

    def watch() -> None:
        seen = False  # a network file system may show it late
        while not done.wait(_LOOK_EVERY):
            state = sign.look()
            seen = seen or state == "alive"
            if seen and state != "alive":
                os.kill(os.getpid(), signal.SIGTERM)
                if not done.wait(PATIENCE):
                    os._exit(1)
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
