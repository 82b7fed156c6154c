"""Attention weights on demand, computed from q and k for chosen heads and rows. The forward pass is not involved and stays on its
fast kernel.

For q and k in low precision the weights are computed in float32, as in the fused kernels. Letters: B batch, H heads, Q queries,
K keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention import reference
from firth.layers.attention.call import Call
from firth.layers.attention.chunked import chunks
from firth.layers.attention.score import Dot
from firth.layers.matmul_precision import tensor_cores
from firth.layers.position import Disentangled

Some = int | slice | Sequence[int] | None  # one, a range, a few, or all


@dataclass(frozen=True, eq=False)
class RowStatistics:
    """Statistics of each row of weights: its entropy −Σ p ln p in nats (0: one key; ln K: all alike), its largest weight, and its
    mean distance Σ p |q − k|. All zero for a query that sees nothing."""

    entropy_BHQ: Tensor
    maximum_BHQ: Tensor
    distance_BHQ: Tensor


@torch.no_grad()
def weights(call: Call, heads: Some = None, rows: Some = None) -> Tensor:
    """p_BHQK of the given heads and queries."""
    narrow = call.q_BHQD.dtype in (torch.bfloat16, torch.float16)
    call = _selected(call, heads, rows)
    pieces = list(chunks(call))
    # bfloat16 and float16 have no more digits than TF32, so nothing is lost.
    with tensor_cores(narrow and call.q_BHQD.is_cuda):
        if len(pieces) == 1:
            return reference.weights(call)
        return torch.cat([reference.weights(call.of_rows(piece)) for piece in pieces], dim=2)


@torch.no_grad()
def statistics(call: Call, heads: Some = None, rows: Some = None) -> RowStatistics:
    """Statistics of each row. Only a few rows of weights exist at a time, so the sequence may be long."""
    call = _selected(call, heads, rows)
    statistics_of_chunks = [_of_chunk(call.of_rows(piece)) for piece in chunks(call)]
    return RowStatistics(*(torch.cat(parts, dim=2) for parts in zip(*statistics_of_chunks, strict=True)))


def _of_chunk(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    p_BHQK = reference.weights(call)
    distance_BHQK = call.distance_BHQK().abs().to(p_BHQK.dtype)
    maximum_BHQ = p_BHQK.amax(-1) if p_BHQK.shape[-1] else p_BHQK.new_zeros(p_BHQK.shape[:-1])  # no keys have no maximum
    return torch.special.entr(p_BHQK).sum(-1), maximum_BHQ, (p_BHQK * distance_BHQK).sum(-1)


def _selected(call: Call, heads: Some, rows: Some) -> Call:
    call = call.reduced()
    if heads is not None:
        head_H = _index("head", heads, call.q_BHQD.shape[1], call.q_BHQD.device)
        if not len(head_H):
            raise ConfigError(f"heads is empty; choose some of the {call.q_BHQD.shape[1]} heads, or leave it out for all of them")
        call = call.of_heads(head_H)
    if rows is not None:
        call = call.of_rows(_index("row", rows, call.q_BHQD.shape[2], call.q_BHQD.device))
    if call.q_BHQD.dtype in (torch.bfloat16, torch.float16):
        call = replace(call, q_BHQD=call.q_BHQD.float(), k_BGKC=call.k_BGKC.float(), v_BGKE=call.v_BGKE.float())
    if type(call.score) is Dot and not isinstance(call.position, Disentangled) and math.frexp(call.scale)[0] == 0.5:
        # Scaling q is less work than scaling q·k, and exact by a power of two.
        call = replace(call, q_BHQD=call.q_BHQD * call.scale, scale=1.0)
    return call


def _index(what: str, some: int | slice | Sequence[int], count: int, device: torch.device) -> Tensor:
    chosen = range(some, some + 1) if isinstance(some, int) else range(count)[some] if isinstance(some, slice) else list(some)
    for one in chosen:
        if not -count <= one < count:
            raise ConfigError(f"there is no {what} {one}; choose from 0 … {count - 1}")
    if isinstance(chosen, range):  # made on the device: copying a list there would synchronise
        return torch.arange(chosen.start, chosen.stop, chosen.step, device=device) % count
    return torch.tensor([one % count for one in chosen], dtype=torch.long, device=device)
