"""Masks: predicates over absolute positions, composed with `&` and `|`. True means that the query may attend to the key.

A mask takes index tensors that broadcast to B,H,Q,K and returns a boolean tensor that broadcasts to the same. Positions are
absolute: the first query of a cached step is at `q_start`, not at 0. A mask that leaves each query one interval of keys also
defines `keys`, so that a fused kernel can skip the rest. Write your own as a subclass with `allowed`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention.key_ranges import Span, Whole

# The masks that a model can have as a setting.
MaskKind = Literal["full", "causal", "strictly_causal", "all_but_self", "window", "prefix"]


class Mask(ABC):
    @abstractmethod
    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        """True where query q of row b, head h may attend to key k."""

    def keys(self, b: Tensor | None, q: Whole, K: int) -> Span | None:
        """The mask as an interval of the K keys; None if it is not one, or if it differs by row and no rows b are given."""
        return None

    def check(self, B: int, end: int, K: int) -> None:  # noqa: B027  # most masks fit every batch and length
        """Raise if the mask was made for another batch or length. The last query is at `end` − 1."""

    def tensors(self) -> tuple[Tensor, ...] | None:
        """All tensors that it depends on, so that results can be cached until one changes; None: cache nothing."""
        return None

    def is_causal(self) -> bool:
        """True if it is certain that no query sees a later key."""
        return False

    def __and__(self, other: Mask) -> Mask:
        return Both(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Either(self, other)


class PlainMask(Mask):
    """A mask that depends on positions alone."""

    def tensors(self) -> tuple[Tensor, ...]:
        return ()


@dataclass(frozen=True)
class Full(PlainMask):
    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return torch.ones_like(q == k)

    def keys(self, b: Tensor | None, q: Whole, K: int) -> Span:
        return Span(0, K)


@dataclass(frozen=True)
class Causal(PlainMask):
    """k ≤ q."""

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return k <= q

    def keys(self, b: Tensor | None, q: Whole, K: int) -> Span:
        return Span(0, q + 1)

    def is_causal(self) -> bool:
        return True


@dataclass(frozen=True)
class StrictlyCausal(PlainMask):
    """k < q: the first position sees nothing."""

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return k < q

    def keys(self, b: Tensor | None, q: Whole, K: int) -> Span:
        return Span(0, q)

    def is_causal(self) -> bool:
        return True


@dataclass(frozen=True)
class AllButSelf(PlainMask):
    """k ≠ q."""

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return k != q

    def keys(self, b: Tensor | None, q: Whole, K: int) -> Span:
        return Span(0, K, (q, q + 1))


@dataclass(frozen=True)
class Window(PlainMask):
    """The last `span` keys up to and including the query's own: q − span < k ≤ q."""

    span: int

    def __post_init__(self) -> None:
        if self.span < 1:
            raise ConfigError(f"a window of {self.span} keys is empty; expected a span of at least 1, the query itself included")

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (k <= q) & (k > q - self.span)

    def keys(self, b: Tensor | None, q: Whole, K: int) -> Span:
        return Span(q - self.span + 1, q + 1)

    def is_causal(self) -> bool:
        return True


@dataclass(frozen=True)
class Around(PlainMask):
    """`span` keys around the query, its own in the middle: |q − k| ≤ (span − 1)/2."""

    span: int

    def __post_init__(self) -> None:
        if self.span < 1 or self.span % 2 == 0:
            raise ConfigError(f"a window of {self.span} keys has no middle for the query; expected an odd span")

    @property
    def side(self) -> int:
        return self.span // 2

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (k <= q + self.side) & (k >= q - self.side)

    def keys(self, b: Tensor | None, q: Whole, K: int) -> Span:
        return Span(q - self.side, q + self.side + 1)


@dataclass(frozen=True, eq=False)
class Lengths(Mask):
    """Row b has `length_B[b]` real keys; the rest is padding."""

    length_B: Tensor
    name: ClassVar = "mask.lengths"

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return k < self.length_B.to(b.device)[b]

    def keys(self, b: Tensor | None, q: Whole, K: int) -> Span | None:
        return None if b is None else Span(0, self.length_B.to(b.device)[b])

    def tensors(self) -> tuple[Tensor, ...]:
        return (self.length_B,)

    def check(self, B: int, end: int, K: int) -> None:
        _one_per_row(self.name, "lengths", self.length_B, B)


@dataclass(frozen=True, eq=False)
class Prefix(Lengths):
    """k ≤ q, or k within the first `length_B[b]`: a bidirectional prefix with a causal continuation (Raffel et al. 2020,
    §3.2.1)."""

    name: ClassVar = "mask.prefix"

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (k <= q) | (k < self.length_B.to(b.device)[b])

    def keys(self, b: Tensor | None, q: Whole, K: int) -> Span | None:
        return None if b is None else Span(0, torch.maximum(self.length_B.to(b.device)[b], torch.as_tensor(q + 1)))


@dataclass(frozen=True, eq=False)
class Documents(Mask):
    """Several documents packed into one row: a query sees only its own document. `document_BT` numbers them; adjacent positions
    with the same number are one document."""

    document_BT: Tensor
    run_BT: Tensor = field(init=False)  # the document of each position, and where it begins and ends
    first_BT: Tensor = field(init=False)
    end_BT: Tensor = field(init=False)

    def __post_init__(self) -> None:
        if self.document_BT.ndim != 2:
            raise ConfigError(
                f"mask.documents takes one document number per row and position; given the shape {tuple(self.document_BT.shape)}"
            )
        changes_BT = self.document_BT[:, 1:] != self.document_BT[:, :-1]
        run_BT = torch.nn.functional.pad(changes_BT.int(), (1, 0)).cumsum(-1)
        object.__setattr__(self, "run_BT", run_BT)
        object.__setattr__(self, "first_BT", torch.searchsorted(run_BT, run_BT))
        object.__setattr__(self, "end_BT", torch.searchsorted(run_BT, run_BT, right=True))

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        run_BT = self.run_BT.to(b.device)
        return run_BT[b, q] == run_BT[b, k]

    def keys(self, b: Tensor | None, q: Whole, K: int) -> Span | None:
        return None if b is None else Span(self.first_BT.to(b.device)[b, q], self.end_BT.to(b.device)[b, q])

    def tensors(self) -> tuple[Tensor, ...]:
        return (self.run_BT, self.first_BT, self.end_BT)

    def check(self, B: int, end: int, K: int) -> None:
        _one_per_row("mask.documents", "rows", self.document_BT, B)
        T = self.document_BT.shape[1]
        if max(end, K) > T:
            raise ConfigError(
                f"mask.documents numbers {T} positions, but there are {K} keys and the last query stands at position {end - 1}; "
                "give it one number per position"
            )


@dataclass(frozen=True)
class MaskPair(Mask):
    left: Mask
    right: Mask

    def tensors(self) -> tuple[Tensor, ...] | None:
        left, right = self.left.tensors(), self.right.tensors()
        return None if left is None or right is None else left + right

    def check(self, B: int, end: int, K: int) -> None:
        self.left.check(B, end, K)
        self.right.check(B, end, K)


@dataclass(frozen=True)
class Both(MaskPair):
    def is_causal(self) -> bool:
        return self.left.is_causal() or self.right.is_causal()

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return self.left.allowed(b, h, q, k) & self.right.allowed(b, h, q, k)

    def keys(self, b: Tensor | None, q: Whole, K: int) -> Span | None:
        left, right = self.left.keys(b, q, K), self.right.keys(b, q, K)
        return left & right if left and right else None


@dataclass(frozen=True)
class Either(MaskPair):
    def is_causal(self) -> bool:
        return self.left.is_causal() and self.right.is_causal()

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return self.left.allowed(b, h, q, k) | self.right.allowed(b, h, q, k)

    def keys(self, b: Tensor | None, q: Whole, K: int) -> Span | None:
        left, right = self.left.keys(b, q, K), self.right.keys(b, q, K)
        return left | right if left and right else None


FULL = Full()
CAUSAL = Causal()
STRICTLY_CAUSAL = StrictlyCausal()
ALL_BUT_SELF = AllButSelf()


def window(span: int) -> Mask:
    """Each query attends to the last `span` keys up to and including its own."""
    return Window(span)


def around(span: int) -> Mask:
    """Each query attends to `span` keys around it, its own in the middle."""
    return Around(span)


def lengths(length_B: Tensor | Sequence[int]) -> Mask:
    """Row b has `length_B[b]` real keys, and the rest is padding: `length_B` holds one length per row."""
    return Lengths(torch.as_tensor(length_B))


def prefix(length_B: Tensor | Sequence[int]) -> Mask:
    """A causal mask, except that all queries attend to a prefix; `length_B` holds its length for each row."""
    return Prefix(torch.as_tensor(length_B))


def documents(document_BT: Tensor) -> Mask:
    """Each query attends to its own document; `document_BT` numbers the documents that are packed into a row."""
    return Documents(document_BT)


def _one_per_row(name: str, things: str, given: Tensor, B: int) -> None:
    if given.ndim == 0 or len(given) != B:
        count = len(given) if given.ndim else "one number instead of"
        raise ConfigError(f"{name} was given {count} {things} for a batch of {B}; expected one per row")
    if given.ndim > 1 and things == "lengths":
        raise ConfigError(f"{name} takes one length per row, {B} in all; given a shape of {tuple(given.shape)}")
