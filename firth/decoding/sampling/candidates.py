"""The tokens that may come next, with their logits. Letters: n rows, V vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor


class Candidates:
    """Logits, −∞ for excluded tokens: in the order of the vocabulary or, once a filter has sorted them, best first. Filters that
    compare tokens one by one work in either order."""

    def __init__(self, x_nV: Tensor, order_nV: Tensor | None = None) -> None:
        self.x_nV, self._order_nV = x_nV, order_nV

    @property
    def p_nV(self) -> Tensor:
        return torch.softmax(self.x_nV, -1)

    @property
    def place_V(self) -> Tensor:
        """0, 1, 2 …: with `ranked`, the rank of each token."""
        return torch.arange(self.x_nV.shape[-1], device=self.x_nV.device)

    def ranked(self) -> Candidates:
        """Best first; on ties the smaller id."""
        if self._order_nV is not None:
            return self
        return Candidates(*torch.sort(self.x_nV, dim=-1, descending=True, stable=True))

    def of(self, x_nV: Tensor) -> Candidates:
        """Other logits for the same tokens."""
        return Candidates(x_nV, self._order_nV)

    def without(self, out_nV: Tensor) -> Candidates:
        return self.of(self.x_nV.masked_fill(out_nV, -torch.inf))

    def logits(self) -> Tensor:
        """In the order of the vocabulary."""
        if self._order_nV is None:
            return self.x_nV
        return torch.empty_like(self.x_nV).scatter(-1, self._order_nV, self.x_nV)
