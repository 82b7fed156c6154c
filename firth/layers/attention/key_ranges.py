"""A mask as intervals: a query sees one interval of keys, perhaps with a hole. Fused kernels use them to skip whole blocks.

Letters: B batch (1 if all rows agree), Q queries, K keys.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

Whole = int | Tensor


class Span(NamedTuple):
    """lo ≤ k < hi, except hole_lo ≤ k < hole_hi. A bound is one number, or a tensor with one per row and query; bounds may lie
    beyond the keys; if lo ≥ hi the interval is empty."""

    lo: Whole
    hi: Whole
    hole: tuple[Whole, Whole] | None = None

    def __and__(self, other: Span) -> Span | None:
        if self.hole is not None and other.hole is not None:
            return None  # two holes do not fit into one
        return Span(_larger(self.lo, other.lo), _smaller(self.hi, other.hi), self.hole or other.hole)

    def __or__(self, other: Span) -> Span | None:
        if self.hole is not None or other.hole is not None:
            return None
        a, b = self._or_else(other), other._or_else(self)
        return Span(_smaller(a.lo, b.lo), _larger(a.hi, b.hi), (_smaller(a.hi, b.hi), _larger(a.lo, b.lo)))

    def _or_else(self, other: Span) -> Span:
        """The other if this one is empty: the bound of an empty span must not widen a union."""
        some = self.lo < self.hi
        return Span(_choose(some, self.lo, other.lo), _choose(some, self.hi, other.hi))


class Spans(NamedTuple):
    """The same for every query, as int32 tensors within 0 … K."""

    lo_BQ: Tensor
    hi_BQ: Tensor
    hole_lo_BQ: Tensor | None
    hole_hi_BQ: Tensor | None

    @staticmethod
    def of(span: Span, like_BQ: Tensor, K: int) -> Spans:
        """`like_BQ`: any tensor on the right device whose last axis is the queries."""
        bounds = (span.lo, span.hi, *(span.hole or (None, None)))
        B = max([1, *(len(bound) for bound in bounds if isinstance(bound, Tensor) and bound.ndim == 2)])
        return Spans(*(_filled(bound, B, like_BQ, K) for bound in bounds))  # type: ignore[arg-type]


def _filled(bound: Whole | None, B: int, like_BQ: Tensor, K: int) -> Tensor | None:
    if bound is None:
        return None
    Q = like_BQ.shape[-1]
    if isinstance(bound, int):
        return torch.full((B, Q), min(max(bound, 0), K), dtype=torch.int32, device=like_BQ.device)
    return bound.clamp(0, K).to(torch.int32).expand(B, Q).contiguous()


def _choose(some: bool | Tensor, a: Whole, b: Whole) -> Whole:
    if isinstance(some, Tensor):
        return torch.where(some, a, b)
    return a if some else b


def _smaller(a: Whole, b: Whole) -> Whole:
    return _choose(a < b, a, b)


def _larger(a: Whole, b: Whole) -> Whole:
    return _choose(a > b, a, b)
