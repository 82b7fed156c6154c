"""Positions that depend on the distance k − q alone and act inside attend(): on the score, or on keys and values.

Letters: B batch, H query heads, Q queries, K keys, N buckets, R = left + right + 1 clipped distances, D and E head widths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from firth.errors import ConfigError


@dataclass(frozen=True, eq=False)
class ALiBi:
    """s ← s − m_h |q − k|: the farther, the less, each head at its own slope (Press et al. 2022)."""

    slope_H: Tensor

    def bias_BHQK(self, distance_BHQK: Tensor) -> Tensor:
        # In float32 at least: bfloat16 cannot tell 257 from 256.
        slope_H11 = self.slope_H.to(torch.promote_types(self.slope_H.dtype, torch.float32)).view(-1, 1, 1)
        return -slope_H11 * distance_BHQK.abs()

    def of_heads(self, head_H: Tensor) -> ALiBi:
        return ALiBi(self.slope_H[head_H])


@dataclass(frozen=True, eq=False)
class Buckets:
    """s ← s + b_{bucket(k − q), h}: a learned number for each of N ranges of distance (Raffel et al. 2020, §2.1).

    Half of the buckets are single distances, the rest widen logarithmically up to `reach`, beyond which all are one.
    `both` directions: half of the N for keys before the query and itself, half for keys after it; otherwise every later key
    falls into bucket 0."""

    table_NH: Tensor
    both: bool
    reach: int = 128

    def __post_init__(self) -> None:
        if self.table_NH.ndim != 2:
            raise ConfigError(f"position.buckets takes a table of buckets × heads; given a shape of {tuple(self.table_NH.shape)}")
        one_way = len(self.table_NH) // (2 if self.both else 1)
        if one_way < 2 or self.reach <= one_way // 2:
            raise ConfigError(
                f"{len(self.table_NH)} buckets up to a distance of {self.reach} cannot widen; expected at least "
                f"{4 if self.both else 2} buckets and a reach above {max(1, one_way // 2)}"
            )

    @property
    def left(self) -> int:
        """From this distance before the query on, one bucket holds all keys."""
        return _last_step(len(self.table_NH), self.both, self.reach)

    @property
    def right(self) -> int:
        return self.left if self.both else 0

    def table_HR(self) -> Tensor:
        """The bias of each distance −left … right; a key farther away has that of the end."""
        key = (len(self.table_NH), self.both, self.reach, self.table_NH.device)
        if torch.compiler.is_compiling():
            return self.table_NH[self._bucket_R()].T
        if key not in _BUCKET_OF:
            with torch.inference_mode(False):  # made while generating, it must still serve training
                _BUCKET_OF[key] = self._bucket_R()
        return self.table_NH[_BUCKET_OF[key]].T

    def _bucket_R(self) -> Tensor:
        distance_R = torch.arange(-self.left, self.right + 1, device=self.table_NH.device)
        return bucket(distance_R, len(self.table_NH), self.both, self.reach)

    def bias_BHQK(self, distance_BHQK: Tensor) -> Tensor:
        index_BQK = (distance_BHQK.clamp(-self.left, self.right) + self.left).squeeze(1)
        return self.table_HR()[:, index_BQK].transpose(0, 1)

    def of_heads(self, head_H: Tensor) -> Buckets:
        return replace(self, table_NH=self.table_NH[:, head_H])


@dataclass(frozen=True, eq=False)
class Shaw:
    """A query sees the key k + a^K_r and the value v + a^V_r, r = clip(k − q, −c, c), one pair of tables for all heads
    (Shaw et al. 2018, eq. 3–4). The tables have R = 2c + 1 rows, or c + 1 where `both` is false and every later key counts as
    distance 0: what a causal model needs. Either table may be missing."""

    key_RD: Tensor | None
    value_RE: Tensor | None
    both: bool = True

    def __post_init__(self) -> None:
        for table in (self.key_RD, self.value_RE):
            if table is not None and table.ndim != 2:
                raise ConfigError(f"position.shaw takes tables of distances × width; given a shape of {tuple(table.shape)}")
        given = [len(table) for table in (self.key_RD, self.value_RE) if table is not None]
        if not given or len(set(given)) > 1 or given[0] == 0 or (self.both and given[0] % 2 == 0):
            raise ConfigError(
                f"Shaw's tables have {' and '.join(map(str, given)) or 'no'} rows; "
                f"expected {'2·clip' if self.both else 'clip'} + 1, the same for keys and values"
            )

    @property
    def rows(self) -> int:
        table = self.key_RD if self.key_RD is not None else self.value_RE
        assert table is not None
        return len(table)

    @property
    def left(self) -> int:
        """The clip c: from this distance on, one row serves all keys."""
        return self.rows // 2 if self.both else self.rows - 1

    @property
    def right(self) -> int:
        return self.left if self.both else 0

    def index_BHQK(self, distance_BHQK: Tensor) -> Tensor:
        """The row of the tables for each pair."""
        return distance_BHQK.clamp(-self.left, self.right) + self.left

    def of_heads(self, head_H: Tensor) -> Shaw:
        return self


Relative = ALiBi | Buckets | Shaw


class Slopes(nn.Module):
    """ALiBi of a model: nothing to train, nothing to save."""

    slope_H: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.register_buffer("slope_H", alibi(heads).slope_H, persistent=False)

    def forward(self) -> ALiBi:
        return ALiBi(self.slope_H)


class Distances(nn.Module):
    """T5's table of a model, one for all layers."""

    def __init__(self, count: int, heads: int, both: bool, reach: int) -> None:
        super().__init__()
        self.both, self.reach = both, reach
        self.table_NH = nn.Parameter(torch.empty(count, heads))
        self()  # refuses a count and reach that do not fit, before anything is trained

    def forward(self) -> Buckets:
        return Buckets(self.table_NH, self.both, self.reach)


def alibi(heads: int) -> ALiBi:
    """The slopes of the paper: 2^(−8/H), 2^(−16/H), …, 2^−8; where H is no power of two, those of the power below, then every
    other of the power above."""
    if heads < 1:
        raise ConfigError(f"position.alibi was given {heads} heads; expected at least 1")
    below = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (h + 1) / below) for h in range(below)]
    slopes += [2 ** (-4 * (2 * h + 1) / below) for h in range(heads - below)]
    return ALiBi(torch.tensor(slopes, dtype=torch.float32))


def buckets(table_NH: Tensor, *, both: bool, reach: int = 128) -> Buckets:
    return Buckets(table_NH, both, reach)


def shaw(key_RD: Tensor | None, value_RE: Tensor | None = None, *, both: bool = True) -> Shaw:
    return Shaw(key_RD, value_RE, both)


def bucket(distance: Tensor, count: int, both: bool, reach: int) -> Tensor:
    """The bucket of k − q. Computed from a table of the `reach` + 1 possible answers: a logarithm that is rounded differently on
    another device would move a key into the next bucket."""
    count = count // 2 if both else count
    away = (distance.abs() if both else (-distance).clamp(min=0)).clamp(max=reach)
    found = torch.tensor(_steps(count, reach), device=distance.device)[away]
    return found + count * (distance > 0) if both else found


def _steps(count: int, reach: int) -> tuple[int, ...]:
    """The bucket of each distance 0 … reach, one way."""
    exact = count // 2
    wide = [
        min(count - 1, exact + int(math.log(n / exact) / math.log(reach / exact) * (count - exact) + 1e-9))
        for n in range(exact, reach + 1)
    ]
    return (*range(exact), *wide)


def _last_step(count: int, both: bool, reach: int) -> int:
    key = (count, both, reach)
    if key not in _LAST_STEP:
        steps = _steps(count // 2 if both else count, reach)
        _LAST_STEP[key] = steps.index(steps[-1])
    return _LAST_STEP[key]


# Kept between calls. Plain dictionaries: functools.cache makes a compiler complain.
_LAST_STEP: dict[tuple[int, bool, int], int] = {}
_BUCKET_OF: dict[tuple[int, bool, int, torch.device], Tensor] = {}
