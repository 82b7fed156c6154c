"""Learned positions and T5's together, as in MPNet (Song et al. 2020): x_t + e_t on the embedding, and on the scores of every
layer s ← s + b_{bucket(k − q), h}. They end with the context they were trained for.

Letters: T positions, d width, N buckets, H heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import nn

from firth.layers.position.learned import Learned
from firth.layers.position.scheme import Draw, PositionExample, PositionSettings, context_of
from firth.layers.position.t5 import BucketBias, BucketsConfig, Distances


@dataclass(frozen=True, kw_only=True)
class LearnedT5Config(BucketsConfig):
    """One trained vector for each position, up to `context`, and a learned number for each range of distance, added to the
    scores."""

    kind: Literal["learned_t5"] = "learned_t5"


class LearnedAndDistances(Learned):
    """The table of buckets starts at zero, as in T5."""

    kind = "learned_t5"
    label = "learned, with T5 bias (MPNet)"
    about = "Learned positions on the embedding and T5's bias on the scores (Song et al. 2020)."
    latex = r"x_t + e_t, \quad s_{ts} + b_{\mathrm{bucket}(s-t),\,h}"
    Config = LearnedT5Config
    acts_on_scores = True
    oracle = "buckets"

    def __init__(self, context: int, width: int, count: int, heads: int, bidirectional: bool, max_distance: int) -> None:
        super().__init__(context, width)
        self.bidirectional, self.max_distance = bidirectional, max_distance
        self.table_NH = nn.Parameter(torch.empty(count, heads))
        self.relative()  # refuses a count and distance that do not fit, before anything is trained

    @classmethod
    def of(cls, settings: PositionSettings, bidirectional: bool) -> Self:
        own: LearnedT5Config = settings.position
        heads = settings.attention.heads
        return cls(context_of(settings), settings.embedding_width, own.buckets, heads, bidirectional, own.max_distance)

    def relative(self) -> BucketBias:
        return BucketBias(self.table_NH, self.bidirectional, self.max_distance)

    def draw(self, name: str, parameter: torch.Tensor, generator: torch.Generator, embedding_std: float) -> None:
        if name == "table_Td":
            super().draw(name, parameter, generator, embedding_std)
        else:
            parameter.zero_()

    @classmethod
    def example(cls, heads: int, head_width: int, value_width: int | None, draw: Draw) -> PositionExample:
        return Distances.example(heads, head_width, value_width, draw)
