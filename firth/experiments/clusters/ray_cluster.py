"""Runs on a Ray cluster: each is a task with one processor and, if the cluster has GPUs, a share of one."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import re
import signal
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth.errors import ConfigError, RunError, option
from firth.experiments.clusters.remote_call import Outcome, RemoteCall
from firth.experiments.clusters.remote_pool import LOOK_EVERY, Lost, RemotePool


@dataclass(frozen=True)
class RayCluster:
    """A running Ray cluster."""

    address: str  # "auto", "HOST:6379" or "ray://HOST:10001"

    @contextlib.contextmanager
    def pool(self, jobs: int | None, most: int, threads: int, folder: Path) -> Iterator[tuple[int, RemotePool[Any]]]:
        with _connected(self.address) as resources:
            gpus = int(resources.get("GPU", 0))
            at_once = min(jobs or gpus or max(1, int(resources.get("CPU", 1)) // threads), most)
            with RayPool(folder, threads, gpu_share(at_once, gpus)) as pool:
                yield at_once, pool


_ADDRESS = re.compile(r"(?:ray://)?(?P<host>.+):(?P<port>\d{1,5})")


def expect_address(address: str) -> None:
    if address != "auto" and not _ADDRESS.fullmatch(address):
        raise ConfigError(
            f'{option("ray")} is "{address}"; expected the address of a Ray cluster: auto, HOST:PORT or ray://HOST:PORT'
        )


def gpu_share(at_once: int, gpus: int) -> float:
    """The part of a GPU that each of so many runs gets: as many runs on each GPU as it takes, and never two GPUs for one run."""
    if not gpus:
        return 0
    on_each = math.ceil(at_once / gpus)
    return math.floor(10_000 / on_each) / 10_000  # Ray rounds to four digits: six times 0.1667 would not fit


class RayPool(RemotePool[Any]):
    """Tasks of Ray. Ray itself starts none again, so that all clusters do it alike."""

    def __init__(self, folder: Path, threads: int, gpus: float) -> None:
        self._ray = importlib.import_module("ray")
        self._remote = self._ray.remote(_run).options(num_cpus=threads, num_gpus=gpus, max_retries=0)
        super().__init__(folder, threads)

    def _start(self, call: RemoteCall) -> Any:
        return self._remote.remote(call)

    def _ended(self, handles: Sequence[Any]) -> Sequence[Any]:
        try:
            ended: Sequence[Any] = self._ray.wait(list(handles), num_returns=1, timeout=LOOK_EVERY)[0]
        except self._ray.exceptions.RayError as error:
            raise RunError(f"the connection to Ray is lost: {_first_line(error)}. Run the command again.") from error
        return ended

    def _outcome(self, handle: Any) -> Outcome:
        errors = self._ray.exceptions
        try:
            outcome: Outcome = self._ray.get(handle)
        except errors.TaskCancelledError:
            return Outcome(stopped=True)
        except errors.RayTaskError as error:  # outside of the task itself: firth is missing there, for example
            raise RunError(f"Ray could not run a task: {_last_line(error)}") from None
        except errors.RayError as error:
            raise Lost(_first_line(error)) from None
        return outcome

    def _interrupt(self, handle: Any) -> None:
        self._ray.cancel(handle)

    def _kill(self, handle: Any) -> None:
        self._ray.cancel(handle, force=True)


def _run(call: RemoteCall) -> Outcome:
    return call()


@contextlib.contextmanager
def _connected(address: str) -> Iterator[dict[str, float]]:
    """The resources of the cluster. A program that has connected to it before stays connected."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray: Any = importlib.import_module("ray")
    if ray.is_initialized():
        yield ray.cluster_resources()
        return
    on_sigterm = signal.getsignal(signal.SIGTERM)
    printing: Any = importlib.import_module("ray._private.worker")
    printing._worker_logs_enabled = False  # errors of machines would be printed among the results
    try:
        try:
            _expect_listener(address)
            ray.init(address, logging_level="ERROR", log_to_driver=False)
        except (OSError, RuntimeError, ValueError, OverflowError) as error:
            raise RunError(
                f'cannot connect to Ray at "{address}": {_first_line(error)}. Start a cluster with `ray start --head`.'
            ) from error
        yield ray.cluster_resources()
    finally:
        ray.shutdown()
        printing._worker_logs_enabled = True
        with contextlib.suppress(ValueError, TypeError):  # not the main thread
            signal.signal(signal.SIGTERM, on_sigterm)


def _expect_listener(address: str) -> None:
    """Ray itself would try for minutes."""
    if found := _ADDRESS.fullmatch(address):
        socket.create_connection((found["host"], int(found["port"])), timeout=10).close()


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__).rstrip(".")


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
