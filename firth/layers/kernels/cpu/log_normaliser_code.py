"""The code of log_normaliser.py. Letters: L lanes, V numbers of a row."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from llvmlite import ir

from firth.layers.kernels.cpu.code import INT, LONG, Code, Compiled
from firth.layers.kernels.cpu.log_normaliser import FIELDS


def sums() -> Compiled:
    b = Code("firth_log_normaliser", FIELDS)
    L, V = b.lanes, b.field("V")
    x, largest, total = (b.address(name) for name in ("x", "largest", "total"))
    whole, end = b.and_(V, LONG(-L)), b.sub(V, LONG(L))
    # The last vector of a row ends with it, and overlaps the one before.
    seen = b.icmp_signed("<", ir.Constant(ir.VectorType(INT, L), list(range(L))), b.splat_int(b.trunc(b.sub(whole, end), INT)))

    def row(r):
        x_V = b.gep(x, [b.mul(r, V)])
        (most,) = b.loop(LONG(0), whole, LONG(L), lambda n, most: (b.larger(b.read(x_V, n), most),), b.read(x_V, end))
        most = b.fold(most, b.larger)

        def term(n):
            return b.exp(b.fsub(b.read(x_V, n), most))

        last = b.select(seen, b.constant(0.0), term(end))
        (sum_L,) = b.loop(LONG(0), whole, LONG(L), lambda n, sum_L: (b.fadd(sum_L, term(n)),), last)
        for value, place in ((most, largest), (b.fold(sum_L, b.fadd), total)):
            b.store(b.extract_element(value, INT(0)), b.gep(place, [r]))

    b.pieces("taken", b.field("R"), LONG(1), row)
    return b.compiled()
