"""Who may attend to whom: predicates over absolute positions, composed with `&` and `|`. True means attend.

A mask is asked with index tensors that broadcast to B,H,Q,K and answers a boolean tensor that broadcasts to the same.
The positions are absolute: the first query of a cached step stands at `q_start`, not at 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from firth.errors import ConfigError


class Mask(ABC):
    @abstractmethod
    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        """True where query q of row b, head h may attend to key k."""

    def __and__(self, other: Mask) -> Mask:
        return Both(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Either(self, other)


@dataclass(frozen=True)
class Full(Mask):
    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return torch.ones_like(q == k)


@dataclass(frozen=True)
class Causal(Mask):
    """k ≤ q."""

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return k <= q


@dataclass(frozen=True)
class Window(Mask):
    """The last `span` keys up to and including the query's own: q − span < k ≤ q."""

    span: int

    def __post_init__(self) -> None:
        if self.span < 1:
            raise ConfigError(f"a window of {self.span} keys lets nothing through; expected a span of at least 1 (self included)")

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (k <= q) & (k > q - self.span)


@dataclass(frozen=True, eq=False)
class Lengths(Mask):
    """Row b has `length_B[b]` real keys; what comes after is padding."""

    length_B: Tensor

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        if len(self.length_B) != len(b):
            raise ConfigError(
                f"mask.lengths was given {len(self.length_B)} lengths for a batch of {len(b)}; expected one per row"
            )
        return k < self.length_B.to(b.device)[b]


@dataclass(frozen=True)
class Both(Mask):
    left: Mask
    right: Mask

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return self.left.allowed(b, h, q, k) & self.right.allowed(b, h, q, k)


@dataclass(frozen=True)
class Either(Mask):
    left: Mask
    right: Mask

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return self.left.allowed(b, h, q, k) | self.right.allowed(b, h, q, k)


FULL = Full()
CAUSAL = Causal()


def window(span: int) -> Mask:
    return Window(span)


def lengths(length_B: Tensor) -> Mask:
    return Lengths(length_B)
