"""Positions that act inside attend() and depend on the distance k − q alone.

A `Bias` adds a number to the score; every kernel that writes out its scores can compute one. Shaw's positions (shaw.py) change
keys and values instead. To write your own, subclass `Bias`. Letters: B batch, H query heads, Q queries, K keys, C key width,
E value width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from torch import Tensor


class Relative(ABC):
    def check(self, H: int, C: int, E: int) -> None:  # noqa: B027  # some positions fit every call
        """Raise if the position does not fit H query heads, reduced keys of width C and values of width E."""

    @abstractmethod
    def of_heads(self, head_H: Tensor) -> Self:
        """The position for some of the query heads."""


class Bias(Relative):
    @abstractmethod
    def bias_BHQK(self, distance_BHQK: Tensor) -> Tensor:
        """The term added to the score for each distance k − q; the axis of heads of `distance_BHQK` is 1."""

    def of_heads(self, head_H: Tensor) -> Self:
        """The same, for a bias that all heads share."""
        return self
