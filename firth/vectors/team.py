"""Word vectors trained by several processes, started by torchrun, on one machine or many.

Each process trains on its share of the blocks. On one machine all of them write to the same matrices, as threads do. On several
machines, or with `deterministic`, every process has its own copy, and after each round the changes are combined:

    w ← w₀ + s · mean_r (w_r − w₀)        s = (1 − e^(−N·x)) / (1 − e^(−x))        x = curvature · rate · updates of the row

N processes, w₀ the row before the round, w_r that of process r after it. A row that is seldom updated is far from where its data
pull it, and the changes add up (s = N for x → 0). A row that is updated often has arrived there in every process, and the
average is right (s = 1 for x → ∞). Between the two, s is exact for a quadratic loss. Plain averaging (s = 1) would divide the
learning rate of rare words by N, and a plain sum would overshoot for frequent ones.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError, option

T = TypeVar("T")
Matrix = NDArray[np.float32]
_CURVATURE = 0.005  # LOG.md, 2026-11-17: 0 and 0.02 give vectors as good; 1,000, the average, gives vectors that are much worse


@dataclass(frozen=True)
class Team:
    """The processes that train together; without torchrun, this one alone."""

    rank: int = 0
    size: int = 1
    on_this_machine: int = 1

    @classmethod
    def of_environment(cls) -> Team:
        """Join the processes that torchrun has started."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return cls()
        import torch.distributed as dist

        from firth.rendezvous import join

        if not dist.is_initialized():
            join("gloo", dist.default_pg_timeout)
        return cls(dist.get_rank(), size, int(os.environ.get("LOCAL_WORLD_SIZE", size)))

    @property
    def alone(self) -> bool:
        return self.size == 1

    def share(self, places: Sequence[T], most: int, *, growing: bool = True) -> Iterator[list[T]]:
        """This process's places of each round, at most `most`. If rounds are `growing`, they are short at first, when vectors
        change fast: an eighth of all places so far."""
        if self.alone:
            yield list(places)
            return
        first = 0
        while first < len(places):
            last = first + self.size * max(1, min(most, first // (8 * self.size)) if growing else most)
            yield list(places[first + self.rank : last : self.size])
            first = last

    def in_shared_memory(self, matrix_Vd: Matrix) -> Matrix | None:
        """A matrix that all processes of one machine read and write, with the values that the first one gives. None where they
        are on several machines, or the system has no such memory."""
        if self.alone or self.on_this_machine < self.size or not hasattr(os, "memfd_create"):
            return None
        import torch.distributed as dist

        where, descriptor = [""], -1
        if self.rank == 0:
            descriptor = os.memfd_create("firth")  # has no name, so nothing of it is left when the processes are gone
            os.ftruncate(descriptor, matrix_Vd.nbytes)
            where = [f"/proc/{os.getpid()}/fd/{descriptor}"]
        dist.broadcast_object_list(where, src=0)
        shared_Vd: Matrix | None = None
        with contextlib.suppress(OSError):  # a container may keep its processes apart
            shared_Vd = np.asarray(np.memmap(where[0], np.float32, mode="r+", shape=matrix_Vd.shape))
        if self.rank == 0 and shared_Vd is not None:
            shared_Vd[:] = matrix_Vd
        missing = self.any(shared_Vd is None)  # also waits for the values, and for all to have opened it
        if self.rank == 0:
            os.close(descriptor)
        return None if missing else shared_Vd

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        """The sum over all processes; `values` itself is replaced by it."""
        if not self.alone:
            import torch
            import torch.distributed as dist

            dist.all_reduce(torch.from_numpy(values))
        return values

    def any(self, flag: bool) -> bool:
        """True if the flag is set in some process."""
        return flag if self.alone else bool(self.sum(np.array([int(flag)]))[0])

    def wait(self) -> None:
        self.any(False)

    def leave(self) -> None:
        if not self.alone:
            import torch.distributed as dist

            dist.destroy_process_group()


ALONE = Team()


class Combined:
    """A matrix that all processes train."""

    def __init__(self, team: Team, matrix_Vd: Matrix, updates_V: NDArray[np.float64]) -> None:
        """`updates_V`: the expected updates of each row per word of the text."""
        self._team, self._matrix_Vd, self._updates_V = team, matrix_Vd, updates_V
        self._before_Vd, self._change_Vd = matrix_Vd.copy(), np.empty_like(matrix_Vd)

    def combine(self, rate: float, words: float) -> None:
        """Combine the changes since the last call, in which each process read `words` words."""
        N = self._team.size
        x_V = np.maximum(_CURVATURE * rate * words * self._updates_V, 1e-6)
        scale_V = np.expm1(-N * x_V) / np.expm1(-x_V) / N
        np.subtract(self._matrix_Vd, self._before_Vd, out=self._change_Vd)
        self._team.sum(self._change_Vd)
        self._change_Vd *= scale_V[:, None].astype(np.float32)
        self._before_Vd += self._change_Vd
        self._matrix_Vd[:] = self._before_Vd


def check(team: Team, source: object, device: str) -> None:
    """Refuse what several processes cannot do."""
    if team.alone:
        return
    if not isinstance(source, (str, os.PathLike)) or os.fspath(source) == "-":
        raise ConfigError("several processes cannot read standard input or a Python object. Write the text to a file")
    if device == "cuda":
        raise ConfigError(
            f"several processes can only train word vectors on the CPU. Remove {option('device')}, or start one process."
        )
