"""y = x Wᵀ + b for a few rows, at the speed at which W can be read. Letters: N rows of x, d and o widths, L lanes, which are
also the outputs of a tile.

With 16 rows, MKL's product of float32 takes about twice as long as reading W does. Here a tile of L outputs × L rows stays in
registers, one vector of rows for each output:

    y_on += w_od x_dn        for every d: L numbers of W, each broadcast to the lanes, times one vector of x

W is read once, in the order in which it lies in memory. Sums are made of pieces of 256 terms, which keeps rounding errors small.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.layers.kernels.cpu import team
from firth.layers.kernels.cpu.code import Code, Compiled, Value, lanes

FIELDS = ("taken", "W", "x", "y", "bias", "d", "o", "N", "zero")
FEW = range(6, 33)  # rows: with fewer or more, MKL is faster
PIECE = 256  # terms of a partial sum
UNROLLED = 4
ALIASING = 512  # columns: rows of a multiple of these compete for the same few places in the first cache
TILES = 2  # that a thread takes at a time
Columns = Callable[[Value], list[list[Value]]]  # the first column of a few → for each of them, where the L numbers of W are


def why_not(x_Nd: Tensor, W_od: Tensor) -> str | None:
    if len(x_Nd) not in FEW:
        return f"it is for {FEW.start} to {FEW.stop - 1} rows"
    if x_Nd.dtype != torch.float32 or W_od.dtype != torch.float32 or not (x_Nd.is_cpu and W_od.is_cpu):
        return "it computes in float32 on a CPU"
    if not W_od.is_contiguous() or len(W_od) < 16:
        return "W has to be contiguous, with at least 16 rows"
    return team.why_not()


def linear(x_Nd: Tensor, W_od: Tensor, b_o: Tensor | None) -> Tensor:
    """x Wᵀ + b."""
    (N, d), o, L = x_Nd.shape, len(W_od), lanes()
    y_No = x_Nd.new_empty(N, o)
    groups = -(-N // L)
    if N % L:
        x_Nd = F.pad(x_Nd, (0, 0, 0, groups * L - N))
    x_gdL = x_Nd.view(groups, L, d).transpose(1, 2).contiguous()
    b_o = None if b_o is None else b_o.contiguous()
    addresses = (0 if tensor is None else tensor.data_ptr() for tensor in (W_od, x_gdL, y_No, b_o))
    team.run(_kernel(d % ALIASING == 0, b_o is not None), (0, *addresses, d, o, N, 0))
    return y_No


@cache
def _kernel(copied: bool, biased: bool) -> Compiled:
    """`copied`: a square of W is copied before it is read again and again, because its rows would push each other out of the
    cache."""
    b = Code("firth_product", FIELDS)
    L = b.lanes
    W, x, y, bias = (b.address(name) for name in ("W", "x", "y", "bias"))
    d, o, N = (b.field(name) for name in ("d", "o", "N"))
    sum_L = [b.alloca(b.vector) for _ in range(L)]
    columns, step = (_copied_columns(b), L) if copied else (_columns(b), UNROLLED)
    groups = b.sdiv(b.add(N, b.long(L - 1)), b.long(L))

    def tile(t):
        first = b.least(b.mul(t, b.long(L)), b.sub(o, b.long(L)))  # the last tile may overlap the one before
        row_L = [b.gep(W, [b.mul(b.add(first, b.long(n)), d)]) for n in range(L)]

        def group(g):
            x_dL = b.gep(x, [b.mul(g, b.mul(d, b.long(L)))])
            _sums(b, sum_L, row_L, x_dL, d, columns(row_L), step)
            for n, value in enumerate(b.transposed([b.load(total) for total in sum_L])):
                row = b.add(b.mul(g, b.long(L)), b.long(n))
                with b.if_then(b.icmp_signed("<", row, N)):
                    b.write(b.fadd(value, b.read(bias, first)) if biased else value, y, b.add(b.mul(row, o), first))
            return ()

        b.loop(b.long(0), groups, b.long(1), group)

    b.pieces("taken", b.sdiv(b.add(o, b.long(L - 1)), b.long(L)), b.long(TILES), tile)
    return b.compiled()


def _sums(b: Code, sum_L: Sequence[Value], row_L: Sequence[Value], x_dL: Value, d: Value, columns: Columns, step: int) -> None:
    """Σ_d w_od x_dn for the L outputs o of a tile and L rows n, written to sum_L; `step` columns at a time."""
    for total in sum_L:
        b.store(b.constant(0.0), total)

    def piece(start):
        end = b.least(b.add(start, b.long(PIECE)), d)
        whole = b.add(start, b.and_(b.sub(end, start), b.long(-step)))

        def many(k, *y_L):
            for u, w_L in enumerate(columns(k)):
                y_L = _term(b, w_L, x_dL, b.add(k, b.long(u)), y_L)
            return y_L

        def one(k, *y_L):
            return _term(b, [b.gep(row, [k]) for row in row_L], x_dL, k, y_L)

        y_L = b.loop(start, whole, b.long(step), many, *[b.constant(0.0)] * b.lanes)
        for total, y_n in zip(sum_L, b.loop(whole, end, b.long(1), one, *y_L), strict=True):
            b.store(b.fadd(b.load(total), y_n), total)
        return ()

    b.loop(b.long(0), d, b.long(PIECE), piece)


def _term(b: Code, w_L: Sequence[Value], x_dL: Value, column: Value, y_L: Sequence[Value]) -> tuple[Value, ...]:
    x_L = b.read(x_dL, b.mul(column, b.long(b.lanes)))
    return tuple(b.fma(b.splat(b.load(w)), x_L, y_n) for w, y_n in zip(w_L, y_L, strict=True))


def _columns(b: Code) -> Callable[[Sequence[Value]], Columns]:
    """Read from W itself."""

    def of(row_L: Sequence[Value]) -> Columns:
        return lambda k: [[b.gep(row, [b.add(k, b.long(u))]) for row in row_L] for u in range(UNROLLED)]

    return of


def _copied_columns(b: Code) -> Callable[[Sequence[Value]], Columns]:
    """Copy L × L numbers first. They are read through an address that the compiler cannot know to be the one they were written
    to: otherwise it would keep them in registers and broadcast from there, which competes with the products."""
    L = b.lanes
    written = b.alloca(b.float, size=b.long(L * L))
    written.align = 64
    read = b.gep(written, [b.field("zero")])

    def of(row_L: Sequence[Value]) -> Columns:
        def columns(k):
            for n, row in enumerate(row_L):
                b.write(b.read(row, k), written, b.long(n * L))
            return [[b.gep(read, [b.long(n * L + u)]) for n in range(L)] for u in range(L)]

        return columns

    return of
