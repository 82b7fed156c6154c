"""Move batches to the device, and fetch the next one while a GPU computes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor


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


@dataclass(frozen=True)
class DeviceBatch:
    arrays: dict[str, Tensor]
    fresh: bool
    tokens: int

    @property
    def rows(self) -> int:
        return len(next(iter(self.arrays.values())))

    def slice_rows(self, first: int, last: int) -> dict[str, Tensor]:
        """Rows first … last − 1 of each array."""
        return {name: tensor[first:last] for name, tensor in self.arrays.items()}


class Feed:
    """Batches on the model's device. For a GPU, `prefetch` fetches the next batch; call it after the work of a step is queued,
    when Python would otherwise only wait. `position` counts the batches handed out, not the prefetched one."""

    def __init__(self, batches: Batches, device: torch.device) -> None:
        self._batches, self._device = batches, device
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
        arrays = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}  # type: ignore[arg-type]
        moved = {name: self._moved(array) for name, array in arrays.items() if isinstance(array, np.ndarray)}
        return DeviceBatch(moved, batch.fresh, batch.tokens)

    def _moved(self, array: np.ndarray[Any, Any]) -> Tensor:
        """From pinned memory, a copy to a GPU overlaps with the work queued there; from pageable memory it would wait for it."""
        here = torch.from_numpy(array)
        return here.pin_memory().to(self._device, non_blocking=True) if self._device.type == "cuda" else here.to(self._device)
