"""The code of row_product.py, and of the products of row_block.py. Letters: L lanes, R rows of W, d and o widths."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from firth.layers.kernels.cpu.code import INT, LONG, Code, Compiled
from firth.layers.kernels.cpu.row_product import FIELDS, ROWS

TILES = 8  # of ROWS outputs, that a thread takes at a time


def product(biased: bool) -> Compiled:
    b = Code("firth_row_product", FIELDS)
    W, x, y, bias = (b.address(name) for name in ("W", "x", "y", "bias"))
    outputs(b, "taken", W, x, b.field("d"), y, b.field("o"), [bias] if biased else [])
    return b.compiled()


def outputs(b: Code, counter: str, W, x, d, y, o, added) -> None:
    """y = W x + the vectors `added`; `counter` shares the outputs among the threads."""

    def tile(t):
        first = b.least(b.mul(t, LONG(ROWS)), b.sub(o, LONG(ROWS)))  # the last tile may overlap the one before
        row_R = [b.gep(W, [b.mul(b.add(first, LONG(n)), d)]) for n in range(ROWS)]

        def some(k, *y_R):
            x_L = b.read(x, k)
            return [b.fma(b.read(row, k), x_L, total) for row, total in zip(row_R, y_R, strict=True)]

        for n, total in enumerate(b.loop(LONG(0), d, LONG(b.lanes), some, *[b.constant(0.0)] * ROWS)):
            value, place = b.extract_element(b.fold(total, b.fadd), INT(0)), b.add(first, LONG(n))
            for vector in added:
                value = b.fadd(value, b.load(b.gep(vector, [place])))
            b.store(value, b.gep(y, [place]))

    b.pieces(counter, b.sdiv(b.add(o, LONG(ROWS - 1)), LONG(ROWS)), LONG(TILES), tile)
