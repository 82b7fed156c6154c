"""The layer of a block in which tokens see each other, one of several kinds."""

from __future__ import annotations

from firth.layers.attention.config import MixerKind
from firth.layers.block_config import BlockConfig
from firth.layers.linear_attention.layers import GatedLinearAttention, LinearAttention, TaylorAttention
from firth.layers.self_attention import SelfAttention, TokenMixer, WindowAttention

MIXERS: dict[MixerKind, type[TokenMixer]] = {
    "softmax": SelfAttention,
    "window": WindowAttention,
    "linear": LinearAttention,
    "taylor": TaylorAttention,
    "gated_linear": GatedLinearAttention,
}


def token_mixer(config: BlockConfig) -> TokenMixer:
    return MIXERS[config.mixer](config)
