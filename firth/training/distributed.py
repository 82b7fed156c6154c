"""The processes of one training: their ranks and their communication. `torchrun` starts them; one process is a group of
one, for which every function here is the identity.

Only the first process (rank 0) writes files and shows anything. Every function that says "all" is a collective: all processes
must call it, in the same order, and a process that waits longer than training.timeout for the others gives up with a RunError.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from firth import rendezvous
from firth.errors import ConfigError, FirthError, RunError, option
from firth.training.config import TrainingConfig

T = TypeVar("T")
_PREPARING = timedelta(days=7)  # reading a corpus for the first time may take longer than any step
_counter = iter(range(1 << 62))  # every process waits for the same things in the same order


@dataclass(frozen=True)
class Ranks:
    rank: int = 0  # of this process, among all
    world: int = 1  # processes
    local: int = 0  # of this process, on its machine
    node: int = 0  # its machine

    @property
    def first(self) -> bool:
        return self.rank == 0

    def share(self, count: int) -> slice:
        """The rows of this process out of `count`, so that all have the same number, give or take one."""
        return slice(count * self.rank // self.world, count * (self.rank + 1) // self.world)


def ranks() -> Ranks:
    """This process's place in the group; without a group, that of the only one."""
    if not (dist.is_available() and dist.is_initialized()):
        return Ranks()
    local, node = (int(os.environ.get(name, "0")) for name in ("LOCAL_RANK", "GROUP_RANK"))
    return Ranks(dist.get_rank(), dist.get_world_size(), local, node)


def is_first() -> bool:
    """True if this process is the first of those that torchrun started, or the only one; also before they are a group."""
    return int(os.environ.get("RANK", "0")) == 0


def restarted() -> bool:
    """True if torchrun has started the processes anew after a failure; training then continues from the last checkpoint."""
    known = ranks().world > 1 and dist.distributed_c10d._get_default_store().check([rendezvous.RESTARTED])
    return known or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


@contextlib.contextmanager
def joined(config: TrainingConfig) -> Iterator[Ranks]:
    """Within this context the processes that torchrun started are one group. A context inside another changes nothing."""
    started = int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 0
    if started > 1 and config.parallel == "none":
        raise ConfigError(f'training.parallel is "none", but {started} processes were started. Start one, or remove it.')
    if ranks().world > 1 or started == 0 or (started == 1 and config.parallel in ("auto", "none")) or dist.is_initialized():
        yield ranks()
        return
    _initialise(config)
    try:
        with answered(config.timeout):
            yield ranks()
            all_arrived()
    except FirthError:
        dist.destroy_process_group()
        raise
    dist.destroy_process_group()


def _initialise(config: TrainingConfig) -> None:
    cuda = config.device == "cuda" or (config.device == "auto" and torch.cuda.is_available())
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    # gloo also on GPUs: for numbers that Python reads, which then wait for no kernel
    backends, seconds = "cpu:gloo,cuda:nccl" if cuda else "gloo", config.timeout
    try:
        rendezvous.join(backends, timedelta(seconds=seconds))
    except RuntimeError as error:
        if not _is_about_others(error):
            raise
        raise RunError(
            f"rank {os.environ['RANK']}: the processes did not connect to each other (training.timeout is {seconds:g} seconds). "
            "Start them again; if they need longer to start, raise training.timeout."
        ) from error


@contextlib.contextmanager
def answered(timeout: float) -> Iterator[None]:
    """torch's errors about another process that stopped or hangs, as a RunError."""
    try:
        yield
    except RuntimeError as error:
        if not _is_about_others(error):
            raise
        raise RunError(
            f"rank {ranks().rank}: another process stopped, or did not answer for {timeout:g} seconds (training.timeout). "
            f"Continue from the last checkpoint with {option('resume=True')}."
        ) from error


def _is_about_others(error: RuntimeError) -> bool:
    """gloo raises plain RuntimeErrors that name its source files."""
    return isinstance(error, dist.DistError) or "gloo" in str(error).lower() or "Connection closed" in str(error)


def all_arrived() -> None:
    """Wait for all processes."""
    if ranks().world > 1:
        dist.barrier()


def all_told(find: Callable[[], T]) -> T:
    """The result of `find` in the first process; the others do not call it."""
    where = ranks()
    held: list[Any] = [find() if where.first else None]
    if where.world > 1:
        dist.broadcast_object_list(held, src=0)
    value: T = held[0]
    return value


def all_gathered(value: T, group: dist.ProcessGroup | None = None) -> list[T]:
    """The values of all processes, in the order of their ranks. `group`: their messages, apart from all others."""
    where = ranks()
    if where.world == 1:
        return [value]
    held: list[Any] = [None] * where.world
    dist.all_gather_object(held, value, group)
    return held


def all_added(*numbers: float) -> tuple[float, ...]:
    """The sum over all processes of each number, in float64."""
    if ranks().world == 1:
        return numbers
    total = torch.tensor(numbers, dtype=torch.float64)
    dist.all_reduce(total)
    return tuple(total.tolist())


def all_merged(own: dict[int, T]) -> dict[int, T]:
    """The results of all processes, by number, in one dictionary."""
    return {key: value for part in all_gathered(own) for key, value in part.items()}


def all_reduced(value: Tensor) -> Tensor:
    """The sum over all processes of a tensor, in place, on its device."""
    if ranks().world > 1:
        dist.all_reduce(value)
    return value


def mine(number: int) -> bool:
    """True if this process does the piece of work with that number; each piece is done by one of them."""
    where = ranks()
    return number % where.world == where.rank


def in_turn(prepare: Callable[[], T]) -> T:
    """The result of `prepare`, which is called first by the first process, then by the first of every other machine, then by the
    rest. So what one of them writes to a run folder or a cache, the others find there."""
    where, number = ranks(), next(_counter)
    if where.world == 1:
        return prepare()
    store = dist.distributed_c10d._get_default_store()
    before = None if where.first else "first" if where.local == 0 else f"node {where.node}"
    if before is not None:
        store.wait([f"firth/{number}/{before}"], _PREPARING)
    prepared = prepare()
    for name in ["first"] * where.first + [f"node {where.node}"] * (where.local == 0):
        store.set(f"firth/{number}/{name}", "1")
    return prepared


class StopVote:
    """True if any process was asked to stop: cast before a step, counted after it, so that all stop at the same step. The votes
    travel while the step is computed."""

    def __init__(self) -> None:
        self._asked = torch.zeros(1)
        self._work: dist.Work | None = None

    def cast(self, stop: bool) -> None:
        if ranks().world > 1:
            self._asked.fill_(float(stop))
            self._work = dist.all_reduce(self._asked, dist.ReduceOp.MAX, async_op=True)

    def counted(self, stop: bool) -> bool:
        """The result; `stop` where there is one process, which needs no vote."""
        if ranks().world == 1:
            return stop
        if self._work is not None:
            self._work.wait()
            self._work = None
        return bool(self._asked)
