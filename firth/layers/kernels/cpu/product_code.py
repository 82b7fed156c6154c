"""The code of product.py. Letters: L lanes, which are also the outputs of a tile; d and o widths, n rows of x."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Sequence

from firth.layers.kernels.cpu.code import FLOAT, LONG, Code, Compiled, Value
from firth.layers.kernels.cpu.product import FIELDS, PIECE, TILES, UNROLLED

Columns = Callable[[Value], list[list[Value]]]  # the first column of a few → for each of them, where the L numbers of W are


def product(copied: bool, biased: bool) -> Compiled:
    """`copied`: a square of W is copied before it is read again and again, because its rows would push each other out of the
    cache."""
    b = Code("firth_product", FIELDS)
    L = b.lanes
    W, x, y, bias = (b.address(name) for name in ("W", "x", "y", "bias"))
    d, o, N = (b.field(name) for name in ("d", "o", "N"))
    sum_L = [b.alloca(b.vector) for _ in range(L)]
    columns, step = (_copied_columns(b), L) if copied else (_columns(b), UNROLLED)
    groups = b.sdiv(b.add(N, LONG(L - 1)), LONG(L))

    def tile(t):
        first = b.least(b.mul(t, LONG(L)), b.sub(o, LONG(L)))  # the last tile may overlap the one before
        row_L = [b.gep(W, [b.mul(b.add(first, LONG(n)), d)]) for n in range(L)]

        def group(g):
            x_dL = b.gep(x, [b.mul(g, b.mul(d, LONG(L)))])
            _sums(b, sum_L, row_L, x_dL, d, columns(row_L), step)
            for n, value in enumerate(b.transposed([b.load(total) for total in sum_L])):
                row = b.add(b.mul(g, LONG(L)), LONG(n))
                with b.if_then(b.icmp_signed("<", row, N)):
                    b.write(b.fadd(value, b.read(bias, first)) if biased else value, y, b.add(b.mul(row, o), first))
            return ()

        b.loop(LONG(0), groups, LONG(1), group)

    b.pieces("taken", b.sdiv(b.add(o, LONG(L - 1)), LONG(L)), LONG(TILES), tile)
    return b.compiled()


def _sums(b: Code, sum_L: Sequence[Value], row_L: Sequence[Value], x_dL: Value, d: Value, columns: Columns, step: int) -> None:
    """Σ_d w_od x_dn for the L outputs o of a tile and L rows n, written to sum_L; `step` columns at a time."""
    for total in sum_L:
        b.store(b.constant(0.0), total)

    def piece(start):
        end = b.least(b.add(start, LONG(PIECE)), d)
        whole = b.add(start, b.and_(b.sub(end, start), LONG(-step)))

        def many(k, *y_L):
            for u, w_L in enumerate(columns(k)):
                y_L = _term(b, w_L, x_dL, b.add(k, LONG(u)), y_L)
            return y_L

        def one(k, *y_L):
            return _term(b, [b.gep(row, [k]) for row in row_L], x_dL, k, y_L)

        y_L = b.loop(start, whole, LONG(step), many, *[b.constant(0.0)] * b.lanes)
        for total, y_n in zip(sum_L, b.loop(whole, end, LONG(1), one, *y_L), strict=True):
            b.store(b.fadd(b.load(total), y_n), total)
        return ()

    b.loop(LONG(0), d, LONG(PIECE), piece)


def _term(b: Code, w_L: Sequence[Value], x_dL: Value, column: Value, y_L: Sequence[Value]) -> tuple[Value, ...]:
    x_L = b.read(x_dL, b.mul(column, LONG(b.lanes)))
    return tuple(b.fma(b.splat(b.load(w)), x_L, y_n) for w, y_n in zip(w_L, y_L, strict=True))


def _columns(b: Code) -> Callable[[Sequence[Value]], Columns]:
    """Read from W itself."""

    def of(row_L: Sequence[Value]) -> Columns:
        return lambda k: [[b.gep(row, [b.add(k, LONG(u))]) for row in row_L] for u in range(UNROLLED)]

    return of


def _copied_columns(b: Code) -> Callable[[Sequence[Value]], Columns]:
    """Copy L × L numbers first. They are read through an address that the compiler cannot know to be the one they were written
    to: otherwise it would keep them in registers and broadcast from there, which competes with the products."""
    L = b.lanes
    written = b.alloca(FLOAT, size=LONG(L * L))
    written.align = 64
    read = b.gep(written, [b.field("zero")])

    def of(row_L: Sequence[Value]) -> Columns:
        def columns(k):
            for n, row in enumerate(row_L):
                b.write(b.read(row, k), written, LONG(n * L))
            return [[b.gep(read, [LONG(n * L + u)]) for n in range(L)] for u in range(L)]

        return columns

    return of
