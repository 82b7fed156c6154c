"""LinearCall: the arguments of one linear attention, as every form receives them; LinearState: what it remembers of the past.

Letters: B batch, H heads, T time, D width of q and k, F width of the features, E value width.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.known import with_defaults
from firth.layers.linear_attention.features import FeatureMap


@dataclass(frozen=True, eq=False)
class LinearState:
    """S = Σ φ(k) vᵀ of one layer after `length` tokens, decayed by the gates; its size does not depend on the length. If the
    attention is normalised, the last column of S is z = Σ φ(k). In float32, or float64 if the values are."""

    S_BHFE: Tensor | None = None
    length: Any = 0  # of a fixed state, one for each row

    def select(self, rows: Tensor) -> LinearState:
        return self if self.S_BHFE is None else LinearState(self.S_BHFE.index_select(0, rows), self.length)

    def cut(self, length: int) -> LinearState:
        raise ConfigError("linear attention sums over the past; an earlier state cannot be restored from a later one")

    def at(self, length_B: Tensor) -> LinearState:
        return LinearState(self.S_BHFE, length_B)

    def fixed(self, capacity: int) -> LinearState:
        return self

    def tensors(self) -> tuple[Tensor, ...]:
        assert self.S_BHFE is not None
        return (self.S_BHFE,)

    def of(self, tensors: Iterable[Tensor]) -> LinearState:
        (S_BHFE,) = tensors
        return LinearState(S_BHFE, self.length)


@with_defaults
@dataclass(frozen=True, eq=False)
class LinearCall:
    q_BHTD: Tensor
    k_BHTD: Tensor
    v_BHTE: Tensor
    features: FeatureMap
    log_gate_BHTF: Tensor | None = None  # ln g, between LEAST_LOG_GATE and 0; None: nothing is forgotten
    normalized: bool = False  # divide by φ(q)·z
    state: LinearState | None = None  # None: there is no past

    def values(self, padding: int = 0) -> Tensor:
        """v, with a column of ones if the attention is normalised: S then contains z, and o its denominator. `padding` columns of
        zeros may follow, for the alignment that a GPU's matrix products need."""
        if not self.normalized:
            return self.v_BHTE
        one_BHT1 = torch.ones_like(self.v_BHTE[..., :1])
        zeros = [self.v_BHTE.new_zeros(*self.v_BHTE.shape[:-1], padding)] if padding else []
        return torch.cat((self.v_BHTE, one_BHT1, *zeros), dim=-1)

    def finished(self, o_BHTE: Tensor) -> Tensor:
        """o without the columns that `values` appended."""
        E = self.v_BHTE.shape[-1]
        if not self.normalized:
            return o_BHTE.to(self.v_BHTE.dtype)
        return (o_BHTE[..., :E] / o_BHTE[..., E : E + 1]).to(self.v_BHTE.dtype)

    def past(self) -> Tensor:
        """S before the first token."""
        if self.state is not None and self.state.S_BHFE is not None:
            return self.state.S_BHFE
        B, H, _, E = self.v_BHTE.shape
        shape = (B, H, self.features.width(self.k_BHTD.shape[-1]), E + self.normalized)
        return torch.zeros(shape, dtype=self.wide, device=self.v_BHTE.device)

    def after(self, S_BHFE: Tensor) -> LinearState:
        return LinearState(S_BHFE, (self.state.length if self.state else 0) + self.v_BHTE.shape[2])

    @property
    def wide(self) -> torch.dtype:
        """The precision of sums over time."""
        return torch.promote_types(self.v_BHTE.dtype, torch.float32)
