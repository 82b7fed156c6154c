"""The token mixers that firth ships."""

from __future__ import annotations

from firth.layers.linear_attention.layers import GatedLinearAttention, LinearAttention, TaylorAttention
from firth.layers.self_attention import SelfAttention, WindowAttention
from firth.layers.token_mixer import MIXERS

MIXERS.ship(SelfAttention, LinearAttention, GatedLinearAttention)
MIXERS.ship(WindowAttention, TaylorAttention, inner=True)  # of some layers of a model
