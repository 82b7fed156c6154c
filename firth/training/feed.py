"""Move batches to the device, and fetch the next one while a GPU computes.

A batch is the same whatever the number of processes: each draws all of it, cheaply, and keeps its own rows. So each also knows
what the others have, and its share of the mean loss. With n_b what row b counts, and P the rows of a process or of a piece:

    mean = Σ_b n_b ℓ_b / Σ_b n_b = Σ_P share_P · mean_P        share_P = Σ_{b in P} n_b / Σ_b n_b

A loss may be a sum of several means, with counts of their own (letter K).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firth.training.distributed import ranks

Floats = NDArray[np.float64]


class Batch(Protocol):
    """A dataclass of arrays with one row per example; the loss receives them by name."""

    @property
    def fresh(self) -> bool:
        """True if a carried recurrent state must be reset before this batch."""
        ...

    @property
    def tokens(self) -> int:
        """The number of tokens that the batch predicts."""
        ...


class Batches(Protocol):
    position: int

    def next(self) -> Batch: ...
    def seek(self, position: int) -> None: ...


Counts = Callable[[Batch], Floats]  # what each row counts in the mean loss: (B,), or (B, K) for K terms


def rows_alike(batch: Batch) -> Floats:
    """Every row counts the same."""
    return np.ones(len(next(iter(_arrays(batch).values()))))


def targets_in(name: str, batch: Batch) -> Floats:
    """The weight of a row is the number of its targets in the array of that name; −1 is padding."""
    targets: Floats = (getattr(batch, name) >= 0).sum(1).astype(np.float64)
    return targets


@dataclass(frozen=True)
class MicroBatch:
    """Some rows of a batch, and by what their mean loss is divided to be their part of the batch's, one number for each term."""

    rows: slice
    divisor_K: tuple[float, ...]

    def part(self, loss: Tensor) -> Tensor:
        """The share of this piece in the loss of the batch."""
        if loss.ndim == 0:
            return loss / self.divisor_K[0]
        return (loss / loss.new_tensor(self.divisor_K)).sum()


@dataclass(frozen=True)
class DeviceBatch:
    """The rows of this process. If there is no row for it that counts, it has one that counts for others, with a share of 0: all
    processes must take part in every exchange of gradients."""

    arrays: dict[str, Tensor]
    fresh: bool
    tokens: int  # of the whole batch
    count_BK: Floats  # of this process's rows
    whole_K: Floats  # the sum over all rows of the batch
    rate_factor: float = 1.0  # by which the learning rate of this update is multiplied

    @property
    def rows(self) -> int:
        return len(next(iter(self.arrays.values())))

    def slice_rows(self, rows: slice) -> dict[str, Tensor]:
        """These rows of each array."""
        return {name: tensor[rows] for name, tensor in self.arrays.items()}

    def pieces(self, count: int) -> Iterator[MicroBatch]:
        """The rows in at most `count` pieces of about the same size."""
        count = min(count, self.rows)
        for n in range(count):
            rows = slice(self.rows * n // count, self.rows * (n + 1) // count)
            with np.errstate(divide="ignore"):
                divisor_K = self.whole_K / self.count_BK[rows].sum(0)
            yield MicroBatch(rows, tuple(divisor_K.tolist()))


class Feed:
    """Batches on the model's device. For a GPU, `prefetch` fetches the next batch; call it after the work of a step is queued,
    when Python would otherwise only wait. `position` counts the batches handed out, not the prefetched one."""

    def __init__(self, batches: Batches, device: torch.device, counts: Counts = rows_alike) -> None:
        self._batches, self._device, self._counts = batches, device, counts
        self._prefetched: DeviceBatch | None = None

    @property
    def position(self) -> int:
        return self._batches.position - (self._prefetched is not None)

    def seek(self, position: int) -> None:
        self._prefetched = None
        self._batches.seek(position)

    def next(self) -> DeviceBatch:
        batch, self._prefetched = self._prefetched or self._fetch(), None
        return batch

    def prefetch(self) -> None:
        if self._prefetched is None and self._device.type == "cuda":
            self._prefetched = self._fetch()

    def _fetch(self) -> DeviceBatch:
        batch = self._batches.next()
        counts = self._counts(batch)
        count_BK = counts.reshape(len(counts), -1)
        rows, own_BK = _own_rows(count_BK)
        moved = {name: self._moved(array[rows]) for name, array in _arrays(batch).items()}
        factor = getattr(batch, "rate_factor", 1.0)  # only batches of varying length have one
        return DeviceBatch(moved, batch.fresh, batch.tokens, own_BK, count_BK.sum(0), factor)

    def _moved(self, array: np.ndarray[Any, Any]) -> Tensor:
        """From pinned memory, a copy to a GPU overlaps with the work queued there; from pageable memory it would wait for it."""
        here = torch.from_numpy(array)
        return here.pin_memory().to(self._device, non_blocking=True) if self._device.type == "cuda" else here.to(self._device)


def _arrays(batch: Batch) -> dict[str, NDArray[Any]]:
    values = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}  # type: ignore[arg-type]
    return {name: array for name, array in values.items() if isinstance(array, np.ndarray)}


def _own_rows(count_BK: Floats) -> tuple[slice, Floats]:
    """The rows of this process and what they count; if they count nothing, a row that does, with a count of 0."""
    rows = ranks().share(len(count_BK))
    if count_BK[rows].any() or ranks().world == 1:
        return rows, count_BK[rows]
    some = int(count_BK.prod(1).argmax())
    return slice(some, some + 1), np.zeros((1, count_BK.shape[1]))
