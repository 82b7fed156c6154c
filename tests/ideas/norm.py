"""Dynamic tanh in place of a norm (Zhu et al. 2025): γ ⊙ tanh(α x) + β."""

import torch
from torch import nn

from firth.layers.norm import Norm


class DyT(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.alpha_1, self.gain_d = nn.Parameter(torch.full((1,), 0.5)), nn.Parameter(torch.ones(width))

    def forward(self, x):
        return torch.tanh(self.alpha_1 * x) * self.gain_d


class DynamicTanh(Norm):
    kind, label, latex = "dyt", "dynamic tanh", r"\gamma \odot \tanh(\alpha x)"
    about = "A tanh with a learned slope, in place of a norm (Zhu et al. 2025)."

    @staticmethod
    def make(width, bias, eps):
        return DyT(width)
