"""y = W x + b for one row, at the speed at which W can be read. Letters: L lanes, R rows of W, d and o widths.

MKL's product of one row reads a large W, such as the output layer's, at three quarters of that speed with two threads.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from firth.layers.kernels.cpu import team
from firth.layers.kernels.cpu.code import Code, Compiled

FIELDS = ("taken", "W", "x", "y", "bias", "d", "o")
LANES = 16  # widths are multiples of these
ROWS = 4  # of W, read side by side
TILES = 8  # of ROWS outputs, that a thread takes at a time
LARGE = 1 << 22  # numbers in W: with fewer, the call costs what it saves


def why_not(x_1d: Tensor, W_od: Tensor) -> str | None:
    if len(x_1d) != 1 or W_od.numel() < LARGE:
        return "it is for one row and a large matrix"
    if x_1d.dtype != torch.float32 or W_od.dtype != torch.float32 or not (x_1d.is_cpu and W_od.is_cpu):
        return "it computes in float32 on a CPU"
    if not W_od.is_contiguous() or W_od.shape[1] % LANES or len(W_od) < ROWS:
        return f"W has to be contiguous, with a multiple of {LANES} columns"
    return team.why_not()


def linear(x_1d: Tensor, W_od: Tensor, b_o: Tensor | None) -> Tensor:
    """y_1o."""
    x_1d, y_1o = x_1d.contiguous(), x_1d.new_empty(1, len(W_od))
    b_o = None if b_o is None else b_o.contiguous()
    addresses = (0 if tensor is None else tensor.data_ptr() for tensor in (W_od, x_1d, y_1o, b_o))
    team.run(_kernel(b_o is not None), (0, *addresses, W_od.shape[1], len(W_od)))
    return y_1o


@cache
def _kernel(biased: bool) -> Compiled:
    b = Code("firth_row_product", FIELDS)
    W, x, y, bias = (b.address(name) for name in ("W", "x", "y", "bias"))
    outputs(b, "taken", W, x, b.field("d"), y, b.field("o"), [bias] if biased else [])
    return b.compiled()


def outputs(b: Code, counter: str, W, x, d, y, o, added) -> None:
    """y = W x + the vectors `added`; `counter` shares the outputs among the threads."""

    def tile(t):
        first = b.least(b.mul(t, b.long(ROWS)), b.sub(o, b.long(ROWS)))  # the last tile may overlap the one before
        row_R = [b.gep(W, [b.mul(b.add(first, b.long(n)), d)]) for n in range(ROWS)]

        def some(k, *y_R):
            x_L = b.read(x, k)
            return [b.fma(b.read(row, k), x_L, total) for row, total in zip(row_R, y_R, strict=True)]

        for n, total in enumerate(b.loop(b.long(0), d, b.long(b.lanes), some, *[b.constant(0.0)] * ROWS)):
            value, place = b.extract_element(b.fold(total, b.fadd), b.int(0)), b.add(first, b.long(n))
            for vector in added:
                value = b.fadd(value, b.load(b.gep(vector, [place])))
            b.store(value, b.gep(y, [place]))

    b.pieces(counter, b.sdiv(b.add(o, b.long(ROWS - 1)), b.long(ROWS)), b.long(TILES), tile)
