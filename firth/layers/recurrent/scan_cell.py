"""A cell whose gates do not depend on the state, so that all positions of a text are computed at once.

Given all x, its state is a linear recurrence h_t = a_t⊙h_{t−1} + b_t with known a and b. The papers scan logarithms, which need
a positive h. The scan here works on a and b directly: a is in [0, 1], so nothing overflows, and the initial state may have any
sign, as RNNsearch's tanh does.

Letters: B batch, T time, i input width, d width, D directions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from firth.layers.recurrent.cell import Cell, State, Weights


class ScanCell(Cell):
    """A subclass writes `step`, as every cell, and `recurrence`: a and b of h_t = a_t⊙h_{t−1} + b_t. There is no U."""

    has_hidden_weights = False
    scans = True

    @abstractmethod
    def recurrence(self, x_BTg: Tensor) -> tuple[Tensor, Tensor]:
        """a_BTd in [0, 1] and b_BTd. `x_BTg` is W x + b."""

    def why_not_fused(self) -> str | None:
        return None

    def fused(
        self, x_BTi: Tensor, state_DBd: State, length_B: Tensor | None = None, weights: Sequence[Weights] | None = None
    ) -> tuple[Tensor, State]:
        outputs, last = [], []
        for direction in range(self.directions):
            y_BTd, h_Bd = self._scanned(x_BTi, state_DBd[0][direction], length_B, direction == 1)
            outputs.append(y_BTd)
            last.append(h_Bd)
        return torch.cat(outputs, -1), (torch.stack(last),)

    def _scanned(self, x_BTi: Tensor, h_Bd: Tensor, length_B: Tensor | None, backward: bool) -> tuple[Tensor, Tensor]:
        w = self.weights(backward)
        x_BTg = w.of_input(x_BTi).to(h_Bd.dtype)  # the scan stays in float32 under autocast
        a_BTd, b_BTd = self.recurrence(x_BTg)
        real_BT1 = None
        if length_B is not None:  # past the end of a row, h_t = 1·h_{t−1} + 0
            real_BT1 = (torch.arange(x_BTi.shape[1]) < length_B.cpu()[:, None]).to(x_BTi.device).unsqueeze(-1)
            a_BTd, b_BTd = torch.where(real_BT1, a_BTd, 1.0), torch.where(real_BT1, b_BTd, 0.0)
        if backward:
            a_BTd, b_BTd = a_BTd.flip(1), b_BTd.flip(1)
        h_BTd = linear_scan(a_BTd, b_BTd, h_Bd)
        last_Bd = h_BTd[:, -1]
        h_BTd = h_BTd.flip(1) if backward else h_BTd
        return h_BTd if real_BT1 is None else torch.where(real_BT1, h_BTd, 0.0), last_Bd


def positive(x_d: Tensor) -> Tensor:
    """g(x) = x + 0.5 for x ≥ 0, σ(x) for x < 0: the activation that Feng et al. (2024) publish for candidates. It is positive
    and grows like x."""
    return torch.where(x_d >= 0, x_d + 0.5, x_d.sigmoid())


def linear_scan(a_BTd: Tensor, b_BTd: Tensor, h_Bd: Tensor) -> Tensor:
    """h_BTd with h_t = a_t⊙h_{t−1} + b_t and h_0 = h_Bd, in O(log T) sequential steps and O(T) work."""
    h_BTd: Tensor = _LinearScan.apply(a_BTd, b_BTd, h_Bd)  # type: ignore[no-untyped-call]
    return h_BTd


class _LinearScan(torch.autograd.Function):
    """The gradient of a linear recurrence is one, too, from the end to the start: G_t = ∂loss/∂h_t + a_{t+1}⊙G_{t+1}, and then
    ∂loss/∂a_t = G_t⊙h_{t−1}, ∂loss/∂b_t = G_t, ∂loss/∂h_0 = a_1⊙G_1. So only a and h are kept, not the tree of the scan."""

    @staticmethod
    def forward(ctx: Any, a_BTd: Tensor, b_BTd: Tensor, h_Bd: Tensor) -> Tensor:
        b_BTd = b_BTd.clone()
        b_BTd[:, 0] += a_BTd[:, 0] * h_Bd
        h_BTd = _scan(a_BTd, b_BTd)
        ctx.save_for_backward(a_BTd, h_Bd, h_BTd)
        return h_BTd

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a_BTd, h_Bd, h_BTd = ctx.saved_tensors
        next_BTd = torch.cat((a_BTd[:, 1:], torch.zeros_like(a_BTd[:, :1])), dim=1)
        G_BTd = linear_scan(next_BTd.flip(1), gradients[0].flip(1), torch.zeros_like(h_Bd)).flip(1)
        before_BTd = torch.cat((h_Bd.unsqueeze(1), h_BTd[:, :-1]), dim=1)
        return G_BTd * before_BTd, G_BTd, a_BTd[:, 0] * G_BTd[:, 0]


def _scan(a_BTd: Tensor, b_BTd: Tensor) -> Tensor:
    """From h_0 = 0. Two steps are one step, h_{t+1} = (a_{t+1}⊙a_t)⊙h_{t−1} + (a_{t+1}⊙b_t + b_{t+1}): scan the pairs, which are
    half as many, and take one more step from each to the position between it and the next (Blelloch 1990)."""
    T = b_BTd.shape[1]
    if T == 1:
        return b_BTd
    even, odd = slice(0, T - 1, 2), slice(1, None, 2)  # positions from 0; the last one of an odd number has no partner
    h_odd = _scan(a_BTd[:, odd] * a_BTd[:, even], torch.addcmul(b_BTd[:, odd], a_BTd[:, odd], b_BTd[:, even]))
    h_BTd = torch.empty_like(b_BTd)
    h_BTd[:, 0] = b_BTd[:, 0]
    h_BTd[:, odd] = h_odd
    h_BTd[:, 2::2] = torch.addcmul(b_BTd[:, 2::2], a_BTd[:, 2::2], h_odd[:, : (T - 1) // 2])
    return h_BTd
