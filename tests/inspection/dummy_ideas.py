"""One idea of each sort that pictures show, with its mathematics and nothing else."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from firth.layers.activation import Activation
from firth.layers.attention.score import Score, ScoreLayer
from firth.layers.linear_attention.layers import GatedLinearAttention
from firth.layers.norm import Norm
from firth.layers.position import Bias, PositionScheme
from firth.layers.recurrent import Cell, State, Trace, Weights


class Leaky(Cell):
    kind, gates = "leaky", ("leak", "h")

    def step(self, x_Bg: torch.Tensor, state: State, w: Weights) -> Trace:
        (h_Bd,) = state
        leak_Bd, new_Bd = (x_Bg + w.of_hidden(h_Bd)).chunk(2, -1)
        leak_Bd = torch.sigmoid(leak_Bd)
        return {"h": h_Bd + leak_Bd * (torch.tanh(new_Bd) - h_Bd), "leak": leak_Bd}


class CityBlock(Score):
    def between(self, q_BGJQD: torch.Tensor, k_BGJKD: torch.Tensor) -> torch.Tensor:
        return -(q_BGJQD.unsqueeze(-2) - k_BGJKD.unsqueeze(-3)).abs().sum(-1)


class CityBlockLayer(ScoreLayer):
    kind = "city_block"

    def score(self, attend: Any) -> Score:
        return CityBlock()


class LogDistance(Bias):
    def bias_BHQK(self, distance_BHQK: torch.Tensor) -> torch.Tensor:
        return -distance_BHQK.abs().log1p()


class Logarithmic(PositionScheme):
    kind, acts_on_scores = "logarithmic", True

    def relative(self) -> LogDistance:
        return LogDistance()


class Slope(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha_d = nn.Parameter(torch.full((width,), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * self.alpha_d)


class Bounded(Norm):
    kind = "bounded"

    @staticmethod
    def make(width: int, bias: bool, eps: float) -> nn.Module:
        return Slope(width)


class Bilinear(Activation):
    kind, gated = "bilinear_unit", True

    @staticmethod
    def apply(up_nh: torch.Tensor) -> torch.Tensor:
        gate_nh, value_nh = up_nh.chunk(2, dim=-1)
        return gate_nh.relu().square() * value_nh


class Fading(GatedLinearAttention):
    kind = "fading"

    def log_gate(self, x_BTd: torch.Tensor) -> torch.Tensor:
        return 0.5 * super().log_gate(x_BTd)
