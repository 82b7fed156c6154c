"""T5: s ← s + b_{bucket(k − q), h}, a learned number per head for each of N ranges of distance (Raffel et al. 2020, §2.1).

Half of the buckets hold a single distance; the others widen logarithmically up to `max_distance`, and all distances beyond it
share the last. If `bidirectional`, half of the N are for the query itself and keys before it, half for keys after it; otherwise
every later key falls into bucket 0. Letters: H query heads, N buckets, R = left + right + 1 distances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from firth.config import renamed
from firth.errors import ConfigError
from firth.layers.position.relative import Bias
from firth.layers.position.scheme import Draw, PositionConfig, PositionExample, PositionScheme, PositionSettings, Shape

BUCKETS, MAX_DISTANCE = 32, 128  # if a recipe gives none


@dataclass(frozen=True, eq=False)
class BucketBias(Bias):
    table_NH: Tensor
    bidirectional: bool
    max_distance: int = MAX_DISTANCE

    def __post_init__(self) -> None:
        if self.table_NH.ndim != 2:
            raise ConfigError(f"position.buckets takes a table of buckets × heads; given a shape of {tuple(self.table_NH.shape)}")
        one_way = len(self.table_NH) // (2 if self.bidirectional else 1)
        if one_way < 2 or self.max_distance <= one_way // 2:
            raise ConfigError(
                f"{len(self.table_NH)} buckets up to a distance of {self.max_distance} cannot widen; expected at least "
                f"{4 if self.bidirectional else 2} buckets and a max_distance above {max(1, one_way // 2)}"
            )

    def check(self, H: int, C: int, E: int) -> None:
        if self.table_NH.shape[1] != H:
            raise ConfigError(f"position.buckets has {self.table_NH.shape[1]} columns for {H} query heads; expected one per head")

    @property
    def left(self) -> int:
        """From this distance before the query on, one bucket holds all keys."""
        return _last_step(len(self.table_NH), self.bidirectional, self.max_distance)

    @property
    def right(self) -> int:
        return self.left if self.bidirectional else 0

    def table_HR(self) -> Tensor:
        """The bias of each distance −left … right; keys farther away have the bias of the end."""
        key = (len(self.table_NH), self.bidirectional, self.max_distance, self.table_NH.device)
        if torch.compiler.is_compiling():
            return self.table_NH[self._bucket_R()].T
        if key not in _BUCKET_OF:
            with torch.inference_mode(False):  # made while generating, it must still serve training
                _BUCKET_OF[key] = self._bucket_R()
        return self.table_NH[_BUCKET_OF[key]].T

    def _bucket_R(self) -> Tensor:
        distance_R = torch.arange(-self.left, self.right + 1, device=self.table_NH.device)
        return bucket(distance_R, len(self.table_NH), self.bidirectional, self.max_distance)

    def bias_BHQK(self, distance_BHQK: Tensor) -> Tensor:
        index_BQK = (distance_BHQK.clamp(-self.left, self.right) + self.left).squeeze(1)
        return self.table_HR()[:, index_BQK].transpose(0, 1)

    def of_heads(self, head_H: Tensor) -> BucketBias:
        return replace(self, table_NH=self.table_NH[:, head_H])


@dataclass(frozen=True, kw_only=True)
class BucketsConfig(PositionConfig):
    """A learned number for each range of distance, added to the scores."""

    # maximum relative distance; larger distances are treated as equal
    max_distance: int = renamed(".max_distance", ".clip", ".reach", default=MAX_DISTANCE)
    buckets: int = renamed(".distance_buckets", ".buckets", default=BUCKETS)  # number of ranges of distance

    def __post_init__(self) -> None:
        count, farthest = self.buckets, self.max_distance
        if count < 2:
            raise ConfigError(f"model.position.buckets is {count}, which distinguishes no distances; expected at least 2")
        if farthest <= count // 2:
            raise ConfigError(
                f"model.position.max_distance = {farthest} leaves no room: half of model.position.buckets = {count} hold one "
                f"distance each, 0 … {count // 2 - 1}. Choose model.position.max_distance > {count // 2}, or fewer buckets"
            )


@dataclass(frozen=True, kw_only=True)
class T5Config(BucketsConfig):
    """A learned number for each range of distance, added to the scores."""

    kind: Literal["t5"] = "t5"
    per_layer: bool = False  # learn these numbers in every layer, as UMT5 does, instead of once for all layers


@dataclass(frozen=True)
class LayerBuckets:
    """The table that every attention layer of a model has."""

    buckets: int
    heads: int
    bidirectional: bool
    max_distance: int

    def parameters(self, head_width: int) -> dict[str, Shape]:
        return {"table_NH": (self.buckets, self.heads)}

    def draw(self, name: str, parameter: Tensor, generator: torch.Generator) -> None:
        parameter.zero_()

    def relative(self, attend: Any) -> BucketBias:
        return BucketBias(attend.table_NH, self.bidirectional, self.max_distance)


class Distances(PositionScheme):
    """T5's table of a model: one for all layers, or, if `per_layer`, one in each (Chung et al. 2023). It starts at zero."""

    kind = "t5"
    label = "T5 bias"
    about = "A trained number per range of distances, added to the score (Raffel et al. 2020)."
    latex = r"s_{ts} + b_{\mathrm{bucket}(s-t),\,h}"
    transfers = True
    Config = T5Config
    acts_on_scores = True
    attribute = "relative"
    oracle = "buckets"

    def __init__(self, count: int, heads: int, bidirectional: bool, max_distance: int, per_layer: bool = False) -> None:
        super().__init__()
        self.bidirectional, self.max_distance = bidirectional, max_distance
        table_NH = torch.empty(count, heads)
        BucketBias(
            table_NH, bidirectional, max_distance
        )  # refuses a count and distance that do not fit, before anything is trained
        self.tables = LayerBuckets(count, heads, bidirectional, max_distance) if per_layer else None
        self.table_NH = None if per_layer else nn.Parameter(table_NH)

    @classmethod
    def of(cls, settings: PositionSettings, bidirectional: bool) -> Self:
        own: T5Config = settings.position
        return cls(own.buckets, settings.attention.heads, bidirectional, own.max_distance, own.per_layer)

    def relative(self) -> BucketBias | None:
        return None if self.table_NH is None else BucketBias(self.table_NH, self.bidirectional, self.max_distance)

    def in_layers(self) -> LayerBuckets | None:
        return self.tables

    @classmethod
    def example(cls, heads: int, head_width: int, value_width: int | None, draw: Draw) -> PositionExample:
        table_NH = draw("b", (8, heads))
        return PositionExample(
            BucketBias(table_NH, bidirectional=True, max_distance=16), {"b": table_NH}, bias=" + b[bucket(k − q)]"
        )


def buckets(table_NH: Tensor, *, bidirectional: bool, max_distance: int = MAX_DISTANCE) -> BucketBias:
    return BucketBias(table_NH, bidirectional, max_distance)


def bucket(distance: Tensor, count: int, bidirectional: bool, max_distance: int) -> Tensor:
    """The bucket of k − q, looked up in a table of all possible answers: a logarithm that another device rounds differently would
    move a key into the next bucket."""
    count = count // 2 if bidirectional else count
    away = (distance.abs() if bidirectional else (-distance).clamp(min=0)).clamp(max=max_distance)
    bucket_of = torch.tensor(_steps(count, max_distance), device=distance.device)[away]
    return bucket_of + count * (distance > 0) if bidirectional else bucket_of


def _steps(count: int, max_distance: int) -> tuple[int, ...]:
    """The bucket of each distance 0 … max_distance, in one direction."""
    exact = count // 2
    wide = [
        min(count - 1, exact + int(math.log(n / exact) / math.log(max_distance / exact) * (count - exact) + 1e-9))
        for n in range(exact, max_distance + 1)
    ]
    return (*range(exact), *wide)


def _last_step(count: int, bidirectional: bool, max_distance: int) -> int:
    key = (count, bidirectional, max_distance)
    if key not in _LAST_STEP:
        steps = _steps(count // 2 if bidirectional else count, max_distance)
        _LAST_STEP[key] = steps.index(steps[-1])
    return _LAST_STEP[key]


# Kept between calls. Plain dictionaries: torch.compile warns about functools.cache.
_LAST_STEP: dict[tuple[int, bool, int], int] = {}
_BUCKET_OF: dict[tuple[int, bool, int, torch.device], Tensor] = {}
