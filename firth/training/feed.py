"""Batches on the device."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor


class Batch(Protocol):
    """A dataclass of arrays, each with a row for every example; an objective takes them by name."""

    @property
    def fresh(self) -> bool:
        """A carried state must be reset before this batch."""
        ...

    @property
    def tokens(self) -> int:
        """How many it predicts."""
        ...


class Batches(Protocol):
    position: int

    def next(self) -> Batch: ...
    def seek(self, position: int) -> None: ...


@dataclass(frozen=True)
class OnDevice:
    of: dict[str, Tensor]  # the arrays of a batch
    fresh: bool
    tokens: int

    @property
    def rows(self) -> int:
        return len(next(iter(self.of.values())))

    def cut(self, first: int, last: int) -> dict[str, Tensor]:
        """The arrays, rows first … last − 1."""
        return {name: tensor[first:last] for name, tensor in self.of.items()}


class Feed:
    """The next batch, where the model is. `look_ahead` fetches the one after it for a GPU: called when that has been given its
    work, it costs no time, because Python would only wait. The position counts the batches handed out, not those fetched."""

    def __init__(self, batches: Batches, device: torch.device) -> None:
        self._batches, self._device = batches, device
        self._ahead: OnDevice | None = None

    @property
    def position(self) -> int:
        return self._batches.position - (self._ahead is not None)

    def seek(self, position: int) -> None:
        self._ahead = None
        self._batches.seek(position)

    def next(self) -> OnDevice:
        batch, self._ahead = self._ahead or self._fetched(), None
        return batch

    def look_ahead(self) -> None:
        if self._ahead is None and self._device.type == "cuda":
            self._ahead = self._fetched()

    def _fetched(self) -> OnDevice:
        batch = self._batches.next()
        arrays = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}  # type: ignore[arg-type]
        moved = {name: self._moved(array) for name, array in arrays.items() if isinstance(array, np.ndarray)}
        return OnDevice(moved, batch.fresh, batch.tokens)

    def _moved(self, array: np.ndarray[Any, Any]) -> Tensor:
        """On a GPU without waiting for it: from ordinary memory a copy would begin when all work under way is done."""
        here = torch.from_numpy(array)
        return here.pin_memory().to(self._device, non_blocking=True) if self._device.type == "cuda" else here.to(self._device)
