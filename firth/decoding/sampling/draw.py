"""Drawing from a distribution. Letters: B batch, V vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def at_quantile(p_BV: Tensor, u_B: Tensor) -> Tensor:
    """token_B: the first token whose cumulative probability exceeds u."""
    if p_BV.device.type == "mps":  # has no float64
        return at_quantile(p_BV.cpu(), u_B.cpu()).to(p_BV.device)
    below_BV = p_BV.double().cumsum(-1)
    token_B = torch.searchsorted(below_BV, u_B.unsqueeze(1) * below_BV[:, -1:], right=True).squeeze(1)
    return token_B.clamp(max=p_BV.shape[-1] - 1)


def random_numbers(seed: int, number: int) -> np.random.Generator:
    """Random numbers of a text, from its seed and its number among those of the same seed. They are drawn on the CPU, so that a
    seed gives the same text on every device and in every batch."""
    # Not torch's generator: it uses only 32 bits of its seed, too few for two numbers.
    return np.random.default_rng((seed, number))


class Draws:
    """The random numbers of a text, one per token: u_0, u_1 …"""

    def __init__(self, seed: int, number: int) -> None:
        self._seed, self._number = seed, number
        self._generator: np.random.Generator | None = None  # to make one takes longer than a step
        self._drawn: NDArray[np.float64] = np.empty(0)

    def of(self, first: int, count: int) -> NDArray[np.float64]:
        """u_first … u_{first + count − 1}."""
        self._generator = self._generator or random_numbers(self._seed, self._number)
        missing = first + count - len(self._drawn)
        if missing > 0:
            self._drawn = np.concatenate((self._drawn, self._generator.random(missing)))
        return self._drawn[first : first + count]


def forced(logits_BV: Tensor, token: int) -> Tensor:
    """Logits that leave one token."""
    only_BV = torch.full_like(logits_BV, -torch.inf)
    only_BV[:, token] = 0
    return only_BV


def without(logits_BV: Tensor, banned: Sequence[int]) -> Tensor:
    """−∞ for the tokens `banned`."""
    if not banned:
        return logits_BV
    return logits_BV.index_fill(-1, torch.tensor(banned, device=logits_BV.device), -torch.inf)
