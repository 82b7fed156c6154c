"""log Σ_v e^{x_v} of each row, without writing what is summed. Letters: L lanes, R rows, V vocabulary."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from firth.layers.kernels.cpu import team
from firth.layers.kernels.cpu.code import Code, Compiled

FIELDS = ("taken", "x", "largest", "total", "V", "R")
_FEWEST = 16  # numbers of a row


def why_not(x_RV: Tensor) -> str | None:
    if not x_RV.is_cpu or x_RV.dtype != torch.float32 or not x_RV.is_contiguous() or x_RV.shape[-1] < _FEWEST:
        return "it is for contiguous rows of float32 on a CPU"
    if torch.is_grad_enabled():
        return "it computes no gradients"
    return team.why_not()


def logsumexp(x_RV: Tensor) -> Tensor:
    """log Σ_v e^{x_rv} = m_r + log Σ_v e^{x_rv − m_r}, m_r = max_v x_rv."""
    largest_R, total_R = x_RV.new_empty(2, len(x_RV))
    addresses = (tensor.data_ptr() for tensor in (x_RV, largest_R, total_R))
    team.run(_kernel(), (0, *addresses, x_RV.shape[1], len(x_RV)))
    log_R: Tensor = total_R.log_().add_(largest_R)
    return log_R


@cache
def _kernel() -> Compiled:
    b = Code("firth_logsumexp", FIELDS)
    L, V = b.lanes, b.field("V")
    x, largest, total = (b.address(name) for name in ("x", "largest", "total"))
    whole, end = b.and_(V, b.long(-L)), b.sub(V, b.long(L))
    # The last vector of a row ends with it, and overlaps the one before.
    seen = b.icmp_signed("<", b.ints(range(L)), b.splat(b.trunc(b.sub(whole, end), b.int)))

    def row(r):
        x_V = b.gep(x, [b.mul(r, V)])
        (most,) = b.loop(b.long(0), whole, b.long(L), lambda n, most: (b.larger(b.read(x_V, n), most),), b.read(x_V, end))
        most = b.fold(most, b.larger)

        def term(n):
            return b.exp(b.fsub(b.read(x_V, n), most))

        last = b.select(seen, b.constant(0.0), term(end))
        (sum_L,) = b.loop(b.long(0), whole, b.long(L), lambda n, sum_L: (b.fadd(sum_L, term(n)),), last)
        for value, place in ((most, largest), (b.fold(sum_L, b.fadd), total)):
            b.store(b.extract_element(value, b.int(0)), b.gep(place, [r]))

    b.pieces("taken", b.field("R"), b.long(1), row)
    return b.compiled()
