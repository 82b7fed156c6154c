"""EngineProcess: an engine in a process of its own.

On a GPU a step takes less than a millisecond, about as long as Python needs to read an HTTP request. In one process, only one of
the two can run at a time. Here the engine has an interpreter for itself. Both processes use the same memory for the weights.
Further processes may give jobs to the engine through its door.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.multiprocessing

from firth.decoding.engine.client import EngineClient, EngineDoor, JobCounts
from firth.decoding.engine.jobs import COUNTED, ENDS, JobLimits
from firth.decoding.engine.restarts import Pause
from firth.decoding.engine.work import READY, EngineSettings, work
from firth.errors import ConfigError, FirthError
from firth.models import LanguageModel
from firth.text.tokenizers.tokenizer import Tokenizer

_log = logging.getLogger("firth.engine")
_JOIN = 10.0  # seconds that the process has to end when its pipe is closed


class EngineProcess(EngineClient):
    """The interface of `Engine`, for one in a process of its own. If the process ends before `close`, its running jobs end as
    "lost" and it is started again."""

    def __init__(
        self,
        network: LanguageModel,
        slots: int = 16,
        capacity: int | None = None,
        queue: int = 256,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        self.network = network
        self.capacity = min((limit for limit in (capacity, network.context) if limit is not None), default=None)
        super().__init__(JobLimits(network.vocab, network.context, self.capacity), slots, queue, JobCounts())
        self._settings = EngineSettings(slots, capacity, torch.get_num_threads(), tokenizer=tokenizer)
        self._past: Counter[str] = Counter()  # what earlier processes have counted
        self._pause = Pause()

    def open_door(self, address: str, key: bytes, clients: int) -> list[EngineDoor]:
        """Let this many other processes submit jobs, each through its own door, once the engine is started."""
        cells: Any = torch.multiprocessing.get_context("spawn").RawArray("q", JobCounts.size(1 + clients))
        self._counts = JobCounts(cells)
        self._settings = replace(self._settings, door=(address, key))
        counts = [self._counts.of(client) for client in range(1, 1 + clients)]
        return [EngineDoor(address, key, self.limits, self.slots, self.queue, own) for own in counts]

    def start(self) -> None:
        """Returns when the engine is ready."""
        self._launch()
        super().start()

    def close(self, drain: bool = True, seconds: float | None = None) -> None:
        """As `Engine.close`."""
        with self._lock:
            self._open = False
            self._closing.set()
            self._outgoing.append(("close", drain, seconds))
        self._send()
        if self._thread is not None:
            self._thread.join()

    def facts(self) -> dict[str, int | float]:
        """As `Engine.facts`. Texts that wait and run are counted by the clients: the engine's own numbers are those of one of its
        last turns."""
        last, past, in_work = self._facts, self._past, self._counts.in_work()
        counted = {name: last.get(name, 0) + past[name] for name in (*COUNTED, *ENDS)}
        running = min(self.slots, in_work)
        now = {"running": running, "reading": last.get("reading", 0), "waiting": in_work - running}
        own = {"jobs": self._counts.jobs(), "lost": self._counts.lost()}
        sizes = {"slots": self.slots, "capacity": self.capacity or 0, "queue": self.queue}
        return {**now, **sizes, **counted, **own}

    @property
    def ready(self) -> bool:
        """True if it accepts jobs, from all clients."""
        return self._open and not self._counts.apart()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def _launch(self) -> None:
        spawning = torch.multiprocessing.get_context("spawn")  # CUDA cannot be used after a fork
        pipe: Connection
        pipe, theirs = spawning.Pipe()
        self._process = spawning.Process(target=work, args=(theirs, self._settings), daemon=True)
        self._process.start()
        theirs.close()
        try:
            pipe.send(self.network)
            said = pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            raise FirthError(f"the process of the engine ended with {self._process.exitcode} before it was ready") from None
        if said != READY:
            raise ConfigError(said)
        self._pause.began()
        self._connected(pipe)

    def _give_up(self) -> None:
        super()._give_up()
        self._past.update({name: int(self._facts.get(name, 0)) for name in (*COUNTED, *ENDS)})
        self._facts = {}

    def _connect(self) -> bool:
        """Start the process again, after a pause if it ended soon."""
        while True:
            self._process.join(_JOIN)
            if self._closing.is_set():
                return False
            wait = self._pause.seconds()
            _log.error("the process of the engine ended with %s; started again in %g s", self._process.exitcode, wait)
            if self._closing.wait(wait):
                return False
            try:
                self._launch()
            except FirthError as error:
                _log.error("%s", error)
            else:
                return True
