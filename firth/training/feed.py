"""Batches on the device. B batch, T time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor


class Batch(Protocol):
    @property
    def input_BT(self) -> np.ndarray[Any, Any]: ...
    @property
    def target_BT(self) -> np.ndarray[Any, Any]: ...
    @property
    def fresh(self) -> bool: ...


class Batches(Protocol):
    position: int

    def next(self) -> Batch: ...
    def seek(self, position: int) -> None: ...


@dataclass(frozen=True)
class OnDevice:
    input_BT: Tensor
    target_BT: Tensor
    fresh: bool  # a carried state must be reset before this batch


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
        return OnDevice(self._moved(batch.input_BT), self._moved(batch.target_BT), batch.fresh)

    def _moved(self, ids_BT: np.ndarray[Any, Any]) -> Tensor:
        """On a GPU without waiting for it: from ordinary memory a copy would begin when all work under way is done."""
        ids = torch.from_numpy(ids_BT)
        return ids.pin_memory().to(self._device, non_blocking=True) if self._device.type == "cuda" else ids.to(self._device)
