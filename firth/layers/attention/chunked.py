"""The reference for a few queries at a time, done again in the backward pass: what it holds does not grow with Q.

For what no fused kernel covers, above all the additive score on a CPU, whose Q×K×A hyperbolic tangents would not fit.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from firth.layers.attention import reference
from firth.layers.attention.call import Call
from firth.layers.attention.score import Additive, Dot
from firth.layers.position import Shaw

ELEMENTS = 1 << 22  # of the largest tensor of a chunk: 16 MB in float32, which still fits a processor's cache
ELEMENTS_ON_GPU = 1 << 26  # there a chunk must be large enough to be worth starting


def why_not(call: Call) -> str | None:
    return None


def run(call: Call) -> Tensor:
    pieces = list(chunks(call))
    if len(pieces) == 1:
        return reference.run(call)
    if not torch.is_grad_enabled():
        return torch.cat([reference.run(call.of_rows(rows)) for rows in pieces], dim=2)
    # Nothing in attention is drawn at random, so there is no generator to restore.
    return torch.cat(
        [checkpoint(reference.run, call.of_rows(rows), use_reentrant=False, preserve_rng_state=False) for rows in pieces], dim=2
    )


def chunks(call: Call) -> Iterator[slice]:
    """The queries, so many at a time that the largest tensor of each chunk has at most ELEMENTS."""
    B, H, Q, D = call.q_BHQD.shape
    by_pair = isinstance(call.score, Additive) or (
        not isinstance(call.score, Dot) and isinstance(call.position, Shaw) and call.position.key_RD is not None
    )
    each = max(1, B * H * call.k_BGKC.shape[2] * (D if by_pair else 1))
    rows = max(1, (ELEMENTS_ON_GPU if call.q_BHQD.is_cuda else ELEMENTS) // each)
    for start in range(0, max(Q, 1), rows):
        yield slice(start, min(start + rows, Q))
