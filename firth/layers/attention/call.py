"""Call: the arguments of one attention, as every kernel receives them. attend() checks them (checks.py), models need not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from firth.layers.attention.checks import check_position
from firth.layers.attention.key_ranges import Spans
from firth.layers.attention.mask import FULL, Mask
from firth.layers.attention.score import SCALED_DOT, Dot, Score
from firth.layers.known import with_defaults
from firth.layers.position import ALiBi, Relative, Rotation

T = TypeVar("T")


@with_defaults
@dataclass(frozen=True, eq=False)
class Call:
    """B batch, H query heads, G key/value heads, Q queries, K keys, D query width, C key width, E value width."""

    q_BHQD: Tensor
    k_BGKC: Tensor
    v_BGKE: Tensor
    scale: float
    score: Score = field(default_factory=lambda: SCALED_DOT)  # torch 2.11 cannot trace a plain default here
    mask: Mask = field(default_factory=lambda: FULL)
    position: Relative | Rotation | None = None
    q_start: int | Tensor = 0  # absolute position of the first query, for all rows or one per row; or of every query, 1|B,Q
    head_H: Tensor | None = None  # which heads of the model these are, if not all
    cap: float | None = None  # bound of the scaled scores, c tanh(s / c)

    def reduced(self) -> Call:
        """The same attention after everything that score and position do to q and k alone: the score is then a dot product,
        Gaussian, w·tanh(q + k), or your own, and the position acts on pairs of a query and a key, or not at all."""
        if type(self.score) is Dot and self.position is None:
            return self
        score, q_BHQC, k_BGKC = self.score.reduced(self.q_BHQD, self.k_BGKC)
        position = self.position
        if isinstance(position, Rotation):
            q_BHQC = position.turned(q_BHQC, self.position_BQ())
            k_BGKC = position.turned(k_BGKC, torch.arange(k_BGKC.shape[2], device=k_BGKC.device).unsqueeze(0))
            position = None
        elif position is not None:
            check_position(position, q_BHQC.shape[1], k_BGKC.shape[3], self.v_BGKE.shape[3])
        return replace(self, q_BHQD=q_BHQC, k_BGKC=k_BGKC, score=score, position=position)

    @property
    def heads_per_group(self) -> int:
        return self.q_BHQD.shape[1] // self.k_BGKC.shape[1]

    @property
    def starts_at_zero(self) -> bool:
        return isinstance(self.q_start, int) and self.q_start == 0

    @property
    def in_fixed_memory(self) -> bool:
        """True if this is a step of texts of different lengths on a GPU (FixedKeyValue), or their attention to a source."""
        if not self.q_BHQD.is_cuda or torch.is_grad_enabled():
            return False
        return isinstance(self.q_start, Tensor) or torch.cuda.is_current_stream_capturing()

    def position_BQ(self) -> Tensor:
        """The positions of the queries: 1,Q if all rows agree."""
        position_Q = torch.arange(self.q_BHQD.shape[2], device=self.q_BHQD.device)
        if not isinstance(self.q_start, Tensor):  # an int, or a symbol for one while a model is exported
            return (position_Q + self.q_start).unsqueeze(0)
        start = self.q_start.to(position_Q.device)
        return start if start.ndim == 2 else start.view(-1, 1) + position_Q

    def distance_BHQK(self) -> Tensor:
        """k − q in positions; the axis of heads is 1."""
        k_K = torch.arange(self.k_BGKC.shape[2], device=self.q_BHQD.device)
        return (k_K - self.position_BQ().unsqueeze(-1)).unsqueeze(1)

    def allowed_BHQK(self) -> Tensor:
        """The mask as a boolean tensor; axes on which it does not depend have size 1."""
        (B, H, _, _), K, device = self.q_BHQD.shape, self.k_BGKC.shape[2], self.q_BHQD.device
        head_H = torch.arange(H, device=device) if self.head_H is None else self.head_H
        return self.mask.allowed(
            torch.arange(B, device=device).view(B, 1, 1, 1),
            head_H.view(1, H, 1, 1),
            self.position_BQ()[:, None, :, None],
            torch.arange(K, device=device).view(1, 1, 1, K),
        )

    @property
    def mask_key(self) -> MaskKey | None:
        """The key of the mask's spans, if they can be cached: the mask, its contents, the queries' start, and the shape."""
        if torch.compiler.is_compiling():  # compiled code needs no cache
            return None
        return self._once("mask_key", self._mask_key)

    def _mask_key(self) -> MaskKey | None:
        tensors = self.mask.tensors()
        if tensors is None or not isinstance(self.q_start, int) or any(tensor.is_inference() for tensor in tensors):
            return None
        B, Q, K, device = self.q_BHQD.shape[0], self.q_BHQD.shape[2], self.k_BGKC.shape[2], self.q_BHQD.device
        return MaskKey(self.mask, tuple(tensor._version for tensor in tensors), self.q_start, B if tensors else 1, Q, K, device)

    @property
    def spans(self) -> Spans | None:
        """The mask as one interval of keys for each query, if it is that."""
        if torch.compiler.is_compiling():
            return self._spans()
        return self._once("spans", self._spans)

    def _spans(self) -> Spans | None:
        if self.mask_key is not None:
            return kept_spans(self.mask_key)
        return spans_of(self.mask, self.position_BQ(), self.q_BHQD.shape[0], self.k_BGKC.shape[2])

    def _once(self, name: str, compute: Callable[[], T]) -> T:
        """Like functools.cached_property, whose lock torch.compile cannot trace."""
        kept = self.__dict__
        if f"_once_{name}" not in kept:
            kept[f"_once_{name}"] = compute()
        value: T = kept[f"_once_{name}"]
        return value

    def of_rows(self, rows: slice | Tensor) -> Call:
        """The same attention for some of the queries."""
        return replace(self, q_BHQD=self.q_BHQD[:, :, rows], q_start=self.position_BQ()[:, rows])

    def of_heads(self, head_H: Tensor) -> Call:
        """The same attention for some of the query heads, after `reduced`."""
        group_H = head_H // self.heads_per_group
        return replace(
            self,
            q_BHQD=self.q_BHQD[:, head_H],
            k_BGKC=self.k_BGKC[:, group_H],
            v_BGKE=self.v_BGKE[:, group_H],
            score=self.score.of_heads(head_H),
            position=self.position.of_heads(head_H) if isinstance(self.position, Relative) else None,
            head_H=head_H if self.head_H is None else self.head_H[head_H],
        )


class MaskKey(NamedTuple):
    mask: Mask
    versions: tuple[int, ...]  # writing to a tensor in place changes its version
    start: int
    B: int
    Q: int
    K: int
    device: torch.device


@lru_cache(maxsize=32)
def kept_spans(key: MaskKey) -> Spans | None:
    """Cached: all layers share one mask, and most masks are the same in every step."""
    with torch.inference_mode(False):  # spans made while generating must still serve training
        position_BQ = torch.arange(key.start, key.start + key.Q, device=key.device).unsqueeze(0)
        return spans_of(key.mask, position_BQ, key.B, key.K)


@lru_cache(maxsize=32)
def rows_all_see(key: MaskKey) -> bool:
    """True if every query is known to see some key; synchronises with the device once."""
    spans = kept_spans(key)
    return spans is not None and spans.hole_lo_BQ is None and bool((spans.lo_BQ < spans.hi_BQ).all())


def spans_of(mask: Mask, position_BQ: Tensor, B: int, K: int) -> Spans | None:
    span = mask.keys(None, position_BQ, K)
    if span is None:
        span = mask.keys(torch.arange(B, device=position_BQ.device).unsqueeze(1), position_BQ, K)
    return None if span is None else Spans.of(span, position_BQ, K)


def learned_slopes(call: Call) -> bool:
    """True if the slopes of ALiBi are being trained; as published they are constants."""
    return isinstance(call.position, ALiBi) and call.position.slope_H.requires_grad and torch.is_grad_enabled()
