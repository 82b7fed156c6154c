"""One vector for a text from the vectors of its tokens. Letters: B batch, T time, d width.

Only the first length_B[b] tokens of row b count; the rest is padding. A row without tokens gives zero.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.layers.activation import Plain, plain
from firth.layers.attention import attend, mask
from firth.layers.gelu import gelu
from firth.layers.norm import NormConfig, norm

PoolKind = Literal["first", "last", "mean", "max", "attention"]
PoolerKind = Literal["tanh", "relu", "gelu"]


class Pooler(nn.Linear):
    """φ(W x + b) of the vector of a text: BERT's pooler, and the hidden layer of RoBERTa's and DistilBERT's classifiers."""

    def __init__(self, activation: PoolerKind, width: int) -> None:
        super().__init__(width, width)
        self.activation = activation

    def forward(self, x_Bd: Tensor) -> Tensor:
        y_Bd = super().forward(x_Bd)
        match self.activation:
            case "tanh":
                return torch.tanh(y_Bd)
            case "relu":
                return F.relu(y_Bd)
            case "gelu":
                return gelu(y_Bd)


class Transform(nn.Module):
    """N(φ(W x + c)) before an output layer, of one vector or of each token's: the hidden layer of masked language models (Devlin
    et al. 2019), which ModernBERT's classifiers have, too. Without `bias`, neither W nor N has one."""

    def __init__(self, width: int, settings: NormConfig, *, bias: bool, activation: Plain) -> None:
        super().__init__()
        self.activation = activation
        self.dense = nn.Linear(width, width, bias=bias)
        self.norm = norm(settings.kind, width, bias=bias, eps=settings.eps)

    def forward(self, x_nd: Tensor) -> Tensor:
        y_nd: Tensor = self.norm(plain(self.activation, self.dense(x_nd)))
        return y_nd


class Pool(nn.Module):
    """first, last: the vector of that token · mean, max: over the tokens, elementwise · attention: Σ_t softmax_t(q·x_t / √d) x_t
    with a learned q."""

    def __init__(self, kind: PoolKind, width: int) -> None:
        super().__init__()
        self.kind = kind
        self.query_d = nn.Parameter(torch.empty(width)) if kind == "attention" else None

    def forward(self, x_BTd: Tensor, length_B: Tensor) -> Tensor:
        match self.kind:
            case "first":
                return at(x_BTd, torch.zeros_like(length_B), length_B)
            case "last":
                return at(x_BTd, (length_B - 1).clamp(min=0), length_B)
            case "mean":
                return mean(x_BTd, length_B)
            case "max":
                return maximum(x_BTd, length_B)
            case "attention":
                assert self.query_d is not None
                q_B11d = self.query_d.to(x_BTd.dtype).expand(x_BTd.shape[0], 1, 1, -1)
                x_B1Td = x_BTd.unsqueeze(1)
                return attend(q_B11d, x_B1Td, x_B1Td, mask=mask.lengths(length_B)).flatten(1)


def mean(x_BTd: Tensor, length_B: Tensor) -> Tensor:
    """1/n_b Σ_{t < n_b} x_bt."""
    share_BT = (_read(x_BTd, length_B) / length_B.clamp(min=1)[:, None]).to(x_BTd.dtype)
    return torch.einsum("bt,btd->bd", share_BT, x_BTd)


def maximum(x_BTd: Tensor, length_B: Tensor) -> Tensor:
    """max_{t < n_b} x_bt, elementwise."""
    highest_Bd = x_BTd.masked_fill(~_read(x_BTd, length_B).unsqueeze(-1), -torch.inf).amax(1)
    return highest_Bd.masked_fill((length_B == 0).unsqueeze(-1), 0.0)


def at(x_BTd: Tensor, place_B: Tensor, length_B: Tensor) -> Tensor:
    """x_b at place_B[b]."""
    x_Bd = x_BTd[torch.arange(x_BTd.shape[0], device=x_BTd.device), place_B]
    return x_Bd.masked_fill((length_B == 0).unsqueeze(-1), 0.0)


def _read(x_BTd: Tensor, length_B: Tensor) -> Tensor:
    return torch.arange(x_BTd.shape[1], device=x_BTd.device) < length_B[:, None]
