"""Everything that determines a block of a Transformer, one frozen config that Stack, Block, mixer and attention hand on whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn

from firth.layers.attention.config import AttentionConfig, MixerKind
from firth.layers.feedforward import FeedForwardConfig
from firth.layers.norm import NormConfig, norm
from firth.layers.position import LayerTables

Biases = bool | Literal["qkv"]  # of linear layers: all, none, or only those that give queries, keys and values


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    width: int
    attention: AttentionConfig = AttentionConfig()
    feedforward: FeedForwardConfig = FeedForwardConfig()
    norm: NormConfig = NormConfig()
    bias: Biases = False
    dropout: float = 0.0
    mixer: MixerKind = "softmax"  # what attends in this layer
    bidirectional: bool = False  # whether a token may see later tokens
    cross: bool = False  # whether the block also attends to a source
    tables: LayerTables | None = None  # of a position scheme that has some in every layer
    layers: int = 1  # consecutive layers that are this block, with the same weights
    position_projections: bool = False  # matrices of its own for the vectors of an Unprojected position

    @property
    def head_width(self) -> int:
        return self.attention.per_head(self.width)

    @property
    def biased(self) -> bool:
        """True if every linear layer has a bias."""
        return self.bias is True

    @property
    def key_biased(self) -> bool:
        """True if keys have biases, which values then have, too."""
        return bool(self.bias) and self.attention.key_bias

    def make_norm(self, width: int | None = None) -> nn.Module:
        """A norm over this width, or over that of the model."""
        biased = self.biased if self.norm.bias is None else self.norm.bias
        return norm(self.norm.kind, width or self.width, biased, self.norm.eps)

    def head_norm(self, heads: int) -> nn.Module | None:
        """A norm on the queries of each of these heads, or on their keys, before positions turn them (Dehghani et al. 2023,
        §2.1), or one over all heads together (OLMo et al. 2024)."""
        if not self.attention.qk_norm:
            return None
        return self.make_norm(self.head_width * (heads if self.attention.qk_norm == "whole" else 1))
