"""The reference for a few queries at a time, recomputed in the backward pass: its memory does not grow with Q.

For what no fused kernel covers, above all the additive score on a CPU, whose Q×K×A hyperbolic tangents would not fit.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from firth.layers.attention import reference
from firth.layers.attention.call import Call
from firth.layers.attention.score import Dot, Gaussian
from firth.layers.position import Shaw

ELEMENTS = 1 << 22  # in the largest tensor of a chunk: 16 MB in float32, which still fits a processor's cache
ELEMENTS_ON_GPU = 1 << 26  # larger, so that the launches do not dominate


def why_not(call: Call) -> str | None:
    return reference.why_not(call)


def run(call: Call) -> Tensor:
    pieces = list(chunks(call))
    if len(pieces) == 1:
        return reference.run(call)
    if not torch.is_grad_enabled():
        return torch.cat([reference.run(call.of_rows(rows)) for rows in pieces], dim=2)
    # Attention draws no random numbers, so there is no generator state to restore.
    return torch.cat(
        [checkpoint(reference.run, call.of_rows(rows), use_reentrant=False, preserve_rng_state=False) for rows in pieces], dim=2
    )


def chunks(call: Call) -> Iterator[slice]:
    """The queries, cut so that the largest tensor of each chunk has at most ELEMENTS elements."""
    B, H, Q, D = call.q_BHQD.shape
    # Whether a vector is held for each pair: for the additive score, for keys that Shaw moves, and for all we know for any other.
    by_pair = type(call.score) not in (Dot, Gaussian) or (
        type(call.score) is not Dot and isinstance(call.position, Shaw) and call.position.key_RD is not None
    )
    each = max(1, B * H * call.k_BGKC.shape[2] * (D if by_pair else 1))
    rows = max(1, (ELEMENTS_ON_GPU if call.q_BHQD.is_cuda else ELEMENTS) // each)
    for start in range(0, max(Q, 1), rows):
        yield slice(start, min(start + rows, Q))
