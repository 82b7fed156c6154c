"""The run's own random state.

Dropout draws from torch's global generators. Each step runs with the run's state in them and restores the previous state
afterwards, so random draws by a consumer between two steps cannot change the run."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor


class Randomness:
    def __init__(self, seed: int, device: torch.device) -> None:
        self.device = device
        self.state = _seeded(seed, device)

    def reseed(self, *numbers: int) -> None:
        """Start anew from these numbers. With several processes every step does, by seed, step and rank: their dropout
        differs, and a resumed run repeats it without having stored the states of all of them."""
        digest = hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest()
        self.state = _seeded(int.from_bytes(digest, "little") >> 1, self.device)

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        outer = self._current()
        self._set(self.state)
        try:
            yield
        finally:
            self.state = self._current()
            self._set(outer)

    def _current(self) -> dict[str, Tensor]:
        state = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            state["cuda"] = torch.cuda.get_rng_state(self.device)
        return state

    def _set(self, state: dict[str, Tensor]) -> None:
        torch.set_rng_state(state["cpu"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda"], self.device)


def _seeded(seed: int, device: torch.device) -> dict[str, Tensor]:
    state = {"cpu": torch.Generator().manual_seed(seed).get_state()}
    if device.type == "cuda":
        state["cuda"] = torch.Generator(device).manual_seed(seed).get_state()
    return state
