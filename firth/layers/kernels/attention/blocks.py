"""The blocks of keys that a block of queries sees, and the reverse, so that a kernel can skip blocks and mask only a few.

Four numbers a ≤ b ≤ c ≤ d describe the other side's blocks: everything visible lies in [a, d), and in [b, c) every query sees
every key, so that no mask is needed. Letters: b batch or 1, m blocks of queries, n blocks of keys.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.layers.attention.key_ranges import Spans


class Tile(NamedTuple):
    """The block that one program holds at a time, and its compiler options."""

    queries: int
    keys: int
    warps: int
    stages: int
    near: int = 16  # step along the other side where a band is gathered, which takes registers
    registers: int | None = None  # maximum per thread; fewer let more programs run side by side, or spill

    @property
    def options(self) -> dict[str, int | None]:
        """By the names that Triton uses."""
        return {"num_warps": self.warps, "num_stages": self.stages, "maxnreg": self.registers}


class Tiles(NamedTuple):
    forward: Tile
    dq: Tile
    dkv: Tile


class BlockPlan(NamedTuple):
    """The spans as the kernels read them, and the bounds of all three kernels for their tiles. Valid as long as the spans are."""

    spans_sbQ: Tensor  # lo, hi and, if there are holes, their bounds
    bounds_bi4: Tensor  # forward, dq and dkv one after the other
    tiles: Tiles
    ends: tuple[int, int, int]  # where each of them ends in bounds; all equal if planned without a backward pass

    @property
    def backward(self) -> bool:
        return self.ends[2] > self.ends[0]

    @property
    def forward_bm4(self) -> Tensor:
        return self.bounds_bi4[:, : self.ends[0]]

    @property
    def dq_bm4(self) -> Tensor:
        return self.bounds_bi4[:, self.ends[0] : self.ends[1]]

    @property
    def dkv_bn4(self) -> Tensor:
        return self.bounds_bi4[:, self.ends[1] :]

    @property
    def numbers(self) -> list[int]:
        """Everything that is not a tensor, in the form that a torch operator accepts."""
        return [*self.ends, *(number or 0 for tile in self.tiles for number in tile)]

    @staticmethod
    def of(spans_sbQ: Tensor, bounds_bi4: Tensor, numbers: list[int]) -> BlockPlan:
        return BlockPlan(spans_sbQ, bounds_bi4, *_read(tuple(numbers)))


@lru_cache(maxsize=64)
def _read(numbers: tuple[int, ...]) -> tuple[Tiles, tuple[int, int, int]]:
    """Undoes Plan.numbers."""
    size = len(Tile._fields)
    tiles = (Tile(*numbers[at : at + size - 1], numbers[at + size - 1] or None) for at in range(3, 3 + 3 * size, size))  # type: ignore[call-arg]
    return Tiles(*tiles), (numbers[0], numbers[1], numbers[2])


# (widest head, whether it is float32) → tiles; a tuning script may replace them. With 128 registers two programs share a
# multiprocessor: one multiplies while the other takes exponentials.
TILES: dict[tuple[int, bool], Tiles] = {
    (64, False): Tiles(Tile(64, 64, 4, 3), Tile(64, 64, 4, 3), Tile(64, 64, 4, 3)),
    (128, False): Tiles(Tile(128, 64, 8, 3), Tile(128, 64, 8, 3), Tile(32, 128, 8, 2)),
    (256, False): Tiles(Tile(128, 32, 8, 2), Tile(64, 32, 8, 2), Tile(16, 64, 8, 2)),
    (64, True): Tiles(Tile(32, 32, 4, 2), Tile(32, 32, 4, 2), Tile(16, 32, 8, 1)),
    (128, True): Tiles(Tile(16, 32, 8, 1), Tile(16, 32, 8, 1), Tile(16, 32, 8, 1)),
    (256, True): Tiles(Tile(16, 16, 8, 1), Tile(16, 16, 8, 1), Tile(16, 16, 8, 1)),
}
# Where a band is gathered; otherwise as above.
BAND_TILES: dict[tuple[int, bool], Tiles] = {
    (64, False): Tiles(Tile(64, 64, 4, 3), Tile(64, 64, 4, 3), Tile(64, 64, 4, 3)),
}


def tiles(D: int, E: int, band: bool, dtype: torch.dtype) -> Tiles:
    kind = next(width for width in (64, 128, 256) if max(D, E) <= width), dtype == torch.float32
    return BAND_TILES.get(kind, TILES[kind]) if band else TILES[kind]


def plan(spans: Spans, Q: int, K: int, tiles: Tiles, backward: bool = True) -> BlockPlan:
    bounds = [_bounds(*_visible(spans, Q, K, tiles.forward))]
    if backward:
        bounds.append(bounds[0] if tiles.dq[:2] == tiles.forward[:2] else _bounds(*_visible(spans, Q, K, tiles.dq)))
        some_bmn, all_bmn = _visible(spans, Q, K, tiles.dkv)
        bounds.append(_bounds(some_bmn.mT, all_bmn.mT))
    ends = list(accumulate(x.shape[1] for x in bounds))
    bounds_bi4 = torch.cat(bounds, 1) if backward else bounds[0]
    spans_sbQ = torch.stack(torch.broadcast_tensors(*(x for x in spans if x is not None)))  # type: ignore[no-untyped-call]
    return BlockPlan(spans_sbQ, bounds_bi4, tiles, (ends[0], ends[1 % len(ends)], ends[-1]))


def _visible(spans: Spans, Q: int, K: int, tile: Tile) -> tuple[Tensor, Tensor]:
    """For each pair of blocks: that some query may see some key, and that all see all. The first may be true too often."""
    least_lo, most_lo, least_hi, most_hi = _extremes(spans.lo_BQ, spans.hi_BQ, Q, K, tile.queries)
    first_n = torch.arange(0, K, tile.keys, device=spans.lo_BQ.device, dtype=torch.int32)
    past_n = first_n + tile.keys
    some_bmn = (least_lo < past_n) & (most_hi > first_n)
    all_bmn = (most_lo <= first_n) & (least_hi >= past_n)
    if spans.hole_lo_BQ is not None and spans.hole_hi_BQ is not None:
        least_lo, _, _, most_hi = _extremes(spans.hole_lo_BQ, spans.hole_hi_BQ, Q, K, tile.queries)
        all_bmn = all_bmn & ((least_lo >= past_n) | (most_hi <= first_n))
    return some_bmn, all_bmn


def _extremes(lo_bQ: Tensor, hi_bQ: Tensor, Q: int, K: int, block: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Least and largest lo, least and largest hi of each block of queries, as b,m,1.

    A query that sees nothing counts as K … 0, which widens no range and lets no block be full; so do rows beyond the last
    query."""
    none_bQ = lo_bQ >= hi_bQ
    extra = -Q % block
    lo_bmi = F.pad(lo_bQ.masked_fill(none_bQ, K), (0, extra), value=K).view(len(none_bQ), -1, block)
    hi_bmi = F.pad(hi_bQ.masked_fill(none_bQ, 0), (0, extra), value=0).view(len(none_bQ), -1, block)
    return (*lo_bmi.aminmax(dim=2, keepdim=True), *hi_bmi.aminmax(dim=2, keepdim=True))


def _bounds(some_bmn: Tensor, all_bmn: Tensor) -> Tensor:
    """a, b, c, d per block m. If the full blocks are not one run (a hole), [b, c) is the first run."""
    n = some_bmn.shape[2]
    at_n = torch.arange(n, device=some_bmn.device, dtype=torch.int32)
    d_bm = torch.where(some_bmn, at_n + 1, 0).amax(2)
    a_bm = torch.where(some_bmn, at_n, n).amin(2).minimum(d_bm)
    b_bm = torch.where(all_bmn, at_n, n).amin(2).minimum(d_bm)
    c_bm = torch.where(all_bmn | (at_n < b_bm[..., None]), n, at_n).amin(2).minimum(d_bm)
    return torch.stack((a_bm, b_bm, c_bm, d_bm), 2)
