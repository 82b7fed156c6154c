"""Disentangled attention: a word's content and its distance are compared separately (He et al. 2021, eq. 2–4).

    s_qk = scale / √3 · (q·k + q·a^K_r + k·a^Q_r)       content to content, content to position, position to content
    r = clip(q − k, −c, c − 1), a row of 2c;  with `max_distance`, q − k is first replaced by its bucket

The paper has the distance k − q in the last term; the published code, and so every checkpoint, has q − k in both.
All layers share one vector per row, P_Rd, after a LayerNorm in DeBERTa-v2 and v3; each layer makes its tables of it:
a^K = P W^K and a^Q = P W^Q, with the matrices of its keys and queries ("shared"), or with two of its own. Half of the c buckets
of a direction hold one distance each; the others widen logarithmically up to `max_distance`.
Letters: R = 2c rows, d model width; the others as in attention/call.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, Self

import torch
from torch import Tensor, nn

from firth.config import renamed
from firth.errors import ConfigError
from firth.layers.norm import EPS
from firth.layers.position.relative import Relative
from firth.layers.position.scheme import Draw, PositionConfig, PositionExample, PositionScheme, PositionSettings, Unprojected

Projections = Literal["shared", "own"]
MAX_DISTANCE = 128  # if a recipe gives none
SCORES = ("dot", "scaled_dot")


@dataclass(frozen=True, eq=False)
class Disentangled(Relative):
    """The tables of one layer, for all heads. Either may be missing; the scale shrinks with the number of terms."""

    key_HRD: Tensor | None
    query_HRD: Tensor | None
    max_distance: int | None = None  # None: no buckets

    def __post_init__(self) -> None:
        given = [tuple(table.shape) for table in (self.key_HRD, self.query_HRD) if table is not None]
        if not given or len(set(given)) > 1 or len(given[0]) != 3 or given[0][1] % 2 or not given[0][1]:
            shapes = " and ".join(map(str, given)) or "none"
            raise ConfigError(
                f"position.disentangled takes two tables of the same shape, heads × 2c rows × width; given {shapes}"
            )
        if self.max_distance is not None:
            check_buckets(self.span, self.max_distance)

    def check(self, H: int, C: int, E: int) -> None:
        heads, _, width = self._table.shape
        if (heads, width) != (H, C):
            raise ConfigError(f"position.disentangled has {heads} heads of width {width}; the queries have {H} of width {C}")

    @property
    def _table(self) -> Tensor:
        table = self.key_HRD if self.key_HRD is not None else self.query_HRD
        assert table is not None
        return table

    @property
    def span(self) -> int:
        """c, half of the rows."""
        return self._table.shape[1] // 2

    @property
    def shrink(self) -> float:
        """1/√n for n terms, so that the variance of the score does not grow with them."""
        return 1 / math.sqrt(1 + (self.key_HRD is not None) + (self.query_HRD is not None))

    def row(self, distance: Tensor) -> Tensor:
        """The row of the tables for each distance."""
        if self.max_distance is not None:
            away = self._steps()[distance.abs().clamp(max=self.max_distance)]
            distance = torch.where(distance < 0, -away, away)
        return (distance + self.span).clamp(0, 2 * self.span - 1)

    def terms_BHQK(self, q_BHQD: Tensor, k_BGKD: Tensor, distance_BHQK: Tensor) -> Tensor:
        """q·a^K_r + k·a^Q_r; the axis of heads of `distance_BHQK`, which is k − q, is 1."""
        terms_BHQK, row_BHQK = q_BHQD.new_zeros(()), self.row(-distance_BHQK)
        if self.key_HRD is not None:
            product_BHQR = q_BHQD @ self.key_HRD.to(q_BHQD.dtype).mT
            terms_BHQK = terms_BHQK + _picked(product_BHQR, row_BHQK)
        if self.query_HRD is not None:
            query_GJRD = self.query_HRD.to(k_BGKD.dtype).view(k_BGKD.shape[1], -1, *self.query_HRD.shape[1:])
            product_BHKR = (k_BGKD.unsqueeze(2) @ query_GJRD.mT).flatten(1, 2)
            terms_BHQK = terms_BHQK + _picked(product_BHKR, row_BHQK.mT).mT
        return terms_BHQK

    def of_heads(self, head_H: Tensor) -> Disentangled:
        tables = (None if table is None else table[head_H] for table in (self.key_HRD, self.query_HRD))
        key_HRD, query_HRD = tables
        return replace(self, key_HRD=key_HRD, query_HRD=query_HRD)

    def _steps(self) -> Tensor:
        assert self.max_distance is not None
        key = (self.span, self.max_distance, self._table.device)
        if torch.compiler.is_compiling():
            return torch.tensor(bucket_steps(self.span, self.max_distance), device=self._table.device)
        if key not in _STEPS:
            with torch.inference_mode(False):  # made while generating, it must still serve training
                _STEPS[key] = torch.tensor(bucket_steps(self.span, self.max_distance), device=self._table.device)
        return _STEPS[key]


_STEPS: dict[tuple[int, int, torch.device], Tensor] = {}  # kept between calls


def _picked(product_BHQR: Tensor, row_BHQK: Tensor) -> Tensor:
    return product_BHQR.gather(-1, row_BHQK.expand(*product_BHQR.shape[:3], -1))


def bucket_steps(count: int, max_distance: int) -> tuple[int, ...]:
    """The bucket of each distance 0 … max_distance in one direction: with m = ⌊count/2⌋, the distance itself up to m, then
    m + ⌈(m − 1) ln(δ/m) / ln((max_distance − 1)/m)⌉, which is count − 1 or less below max_distance."""
    middle = count // 2
    ratio = math.log((max_distance - 1) / middle)
    wide = (math.ceil(math.log(n / middle) / ratio * (middle - 1) - 1e-9) for n in range(middle + 1, max_distance + 1))
    return (*range(middle + 1), *(middle + step for step in wide))


def check_buckets(count: int, max_distance: int) -> None:
    if count < 4 or max_distance <= count // 2 + 1:
        raise ConfigError(
            f"{count} buckets up to a distance of {max_distance} cannot widen; expected at least 4 buckets and a max_distance "
            f"above {max(3, count // 2 + 1)}"
        )


def disentangled(key_HRD: Tensor | None, query_HRD: Tensor | None, *, max_distance: int | None = None) -> Disentangled:
    return Disentangled(key_HRD, query_HRD, max_distance)


@dataclass(frozen=True, eq=False)
class DistanceVectors(Unprojected):
    """P_Rd, before the layers project it."""

    max_distance: int | None

    def projected(self, key_HRD: Tensor, query_HRD: Tensor) -> Disentangled:
        return Disentangled(key_HRD, query_HRD, self.max_distance)


@dataclass(frozen=True, kw_only=True)
class DisentangledConfig(PositionConfig):
    """Content and distance compared separately, as in DeBERTa."""

    kind: Literal["disentangled"] = "disentangled"
    # maximum relative distance; larger distances are treated as equal
    max_distance: int = renamed(".max_distance", ".clip", ".reach", default=MAX_DISTANCE)
    # number of ranges of distance in each direction; if not set, every distance is its own
    buckets: int | None = renamed(".distance_buckets", ".buckets", default=None)
    # matrices with which a layer projects the vectors of the distances: those of its queries and keys ("shared"), or two more
    projections: Projections = renamed(".position_projections", default="shared")
    norm: bool = renamed(".position_norm", default=True)  # LayerNorm on the vectors of the distances

    def __post_init__(self) -> None:
        if self.buckets is not None:
            check_buckets(self.buckets, self.max_distance)


class DisentangledScheme(PositionScheme):
    kind = "disentangled"
    label = "disentangled (DeBERTa)"
    about = "A word's content and its distance are compared separately (He et al. 2021)."
    latex = r"q^\top k + q^\top a^K_r + k^\top a^Q_r"
    Config = DisentangledConfig
    acts_on_scores = True
    attribute = "relative"
    oracle = "disentangled"

    def __init__(
        self, rows: int, width: int, max_distance: int | None, *, own_projections: bool, norm: bool, eps: float = EPS
    ) -> None:
        super().__init__()
        self.max_distance, self.own_projections = max_distance, own_projections
        self.table_Rd = nn.Parameter(torch.empty(rows, width))
        self.norm = nn.LayerNorm(width, eps) if norm else nn.Identity()

    @classmethod
    def check(cls, settings: PositionSettings) -> None:
        if settings.attention.score not in SCORES:
            raise ConfigError(
                'model.position = "disentangled" adds dot products to the score, so model.attention.score must be "scaled_dot" '
                f'or "dot"; given "{settings.attention.score}". Change one of them'
            )
        if settings.attention.qk_norm:
            raise ConfigError(
                "model.attention.qk_norm normalises queries and keys, but not those of the distances of model.position = "
                '"disentangled". Remove one of them.'
            )

    @classmethod
    def of(cls, settings: PositionSettings, bidirectional: bool) -> Self:
        own: DisentangledConfig = settings.position
        return cls(
            2 * (own.max_distance if own.buckets is None else own.buckets),
            settings.width,
            None if own.buckets is None else own.max_distance,
            own_projections=own.projections == "own",
            norm=own.norm,
            eps=settings.norm.eps,
        )

    def relative(self) -> DistanceVectors:
        return DistanceVectors(self.norm(self.table_Rd), self.max_distance)

    def draw(self, name: str, parameter: Tensor, generator: torch.Generator, embedding_std: float) -> None:
        parameter.normal_(0.0, 1.0, generator=generator)  # of the size of a normalised token

    @classmethod
    def example(cls, heads: int, head_width: int, value_width: int | None, draw: Draw) -> PositionExample:
        rows = 4  # distances −2 … 1
        tables = {name: draw(name, (heads, rows, head_width)) for name in ("a_K", "a_Q")}
        whole = "({} + q·a_K[q − k] + k·a_Q[q − k]) / √3"
        return PositionExample(Disentangled(tables["a_K"], tables["a_Q"]), tables, whole=whole)
