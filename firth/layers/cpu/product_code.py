"""The code of product.py. Letters: L lanes, which are also the outputs of a tile; d and o widths, n rows of x."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Sequence

from firth.layers.cpu.code import FLOAT, LONG, Code, Compiled, Value
from firth.layers.cpu.product import FIELDS, PIECE, TILES, UNROLLED


def product(copied: bool, biased: bool, residual: bool) -> Compiled:
    """`copied`: a square of W is copied before it is read again and again, because its rows would push each other out of the
    cache."""
    b = Code("firth_product", FIELDS)
    L = b.lanes
    W, x, y, bias, added = (b.address(name) for name in ("W", "x", "y", "bias", "residual"))
    d, o, N = (b.field(name) for name in ("d", "o", "N"))
    sum_L = [b.alloca(b.vector) for _ in range(L)]
    square = _Square(b) if copied else None
    groups = b.sdiv(b.add(N, LONG(L - 1)), LONG(L))

    def tile(t):
        first = b.least(b.mul(t, LONG(L)), b.sub(o, LONG(L)))  # the last tile may overlap the one before
        row_L = [b.gep(W, [b.mul(b.add(first, LONG(n)), d)]) for n in range(L)]

        def group(g):
            x_dL = b.gep(x, [b.mul(g, b.mul(d, LONG(L)))])
            _sums(b, sum_L, row_L, x_dL, d, square)
            y_nL = b.transposed([b.load(total) for total in sum_L])
            for n, value in enumerate(y_nL):
                row = b.add(b.mul(g, LONG(L)), LONG(n))
                with b.if_then(b.icmp_signed("<", row, N)):
                    place = b.add(b.mul(row, o), first)
                    if biased:
                        value = b.fadd(value, b.read(bias, first))
                    if residual:
                        value = b.fadd(value, b.read(added, place))
                    b.write(value, y, place)
            return ()

        b.loop(LONG(0), groups, LONG(1), group)

    b.pieces("taken", b.sdiv(b.add(o, LONG(L - 1)), LONG(L)), LONG(TILES), tile)
    return b.compiled()


class _Square:
    """L × L numbers of W. They are read through an address that the compiler cannot know to be the one they were written to:
    otherwise it would keep them in registers and broadcast from there, which competes with the products."""

    def __init__(self, b: Code) -> None:
        self.written = b.alloca(FLOAT, size=LONG(b.lanes**2))
        self.written.align = 64
        self.read = b.gep(self.written, [b.field("zero")])


def _sums(b: Code, sum_L: Sequence[Value], row_L: Sequence[Value], x_dL: Value, d: Value, square: _Square | None) -> None:
    """Σ_d w_od x_dn for the L outputs o of a tile and L rows n, written to sum_L."""
    L, step = b.lanes, b.lanes if square is not None else UNROLLED
    for total in sum_L:
        b.store(b.constant(0.0), total)

    def piece(start):
        end = b.least(b.add(start, LONG(PIECE)), d)
        whole = b.add(start, b.and_(b.sub(end, start), LONG(-step)))

        def many(k, *y_L):
            for n in range(step if square is not None else 0):
                b.write(b.read(row_L[n], k), square.written, LONG(n * L))
            for u in range(step):
                column = b.add(k, LONG(u))
                w_L = (
                    [b.gep(row, [column]) for row in row_L]
                    if square is None
                    else [b.gep(square.read, [LONG(n * L + u)]) for n in range(L)]
                )
                y_L = _term(b, w_L, x_dL, column, y_L)
            return y_L

        y_L = b.loop(start, whole, LONG(step), many, *[b.constant(0.0)] * L)
        y_L = b.loop(whole, end, LONG(1), lambda k, *y_L: _term(b, [b.gep(row, [k]) for row in row_L], x_dL, k, y_L), *y_L)
        for total, y_n in zip(sum_L, y_L, strict=True):
            b.store(b.fadd(b.load(total), y_n), total)
        return ()

    b.loop(LONG(0), d, LONG(PIECE), piece)


def _term(b: Code, w_L: Sequence[Value], x_dL: Value, column: Value, y_L: Sequence[Value]) -> list[Value]:
    x_L = b.read(x_dL, b.mul(column, LONG(b.lanes)))
    return [b.fma(b.splat(b.load(w)), x_L, y_n) for w, y_n in zip(w_L, y_L, strict=True)]
