"""Attention weights when somebody wants to see them: computed from q and k for the heads and rows asked for. The forward pass
does not know of it and stays on its fast kernel.

Low precision is computed in float32 from the given q and k, as the fused kernels do. Letters: B batch, H heads, Q queries,
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

Some = int | slice | Sequence[int] | None  # one, a range, a few, or all


@dataclass(frozen=True, eq=False)
class RowStatistics:
    """What a row of weights is like: −Σ p ln p in nats (0 is one key, ln K all alike), its largest weight, and Σ p |q − k|, how
    far it looks. All zero for a query that sees nothing."""

    entropy_BHQ: Tensor
    maximum_BHQ: Tensor
    distance_BHQ: Tensor


@torch.no_grad()
def weights(call: Call, heads: Some = None, rows: Some = None) -> Tensor:
    """p_BHQK of the given heads and queries."""
    narrow = call.q_BHQD.dtype in (torch.bfloat16, torch.float16)
    call = _selected(call, heads, rows)
    pieces = list(chunks(call))
    # What was bfloat16 or float16 has no more digits than TF32: nothing is lost.
    with tensor_cores(narrow and call.q_BHQD.is_cuda):
        if len(pieces) == 1:
            return reference.weights(call)
        return torch.cat([reference.weights(call.of_rows(piece)) for piece in pieces], dim=2)


@torch.no_grad()
def statistics(call: Call, heads: Some = None, rows: Some = None) -> RowStatistics:
    """Of each row; only a few rows of weights exist at a time, so the sequence may be long."""
    call = _selected(call, heads, rows)
    found = [_of_chunk(call.of_rows(piece)) for piece in chunks(call)]
    return RowStatistics(*(torch.cat(parts, dim=2) for parts in zip(*found, strict=True)))


def _of_chunk(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    p_BHQK = reference.weights(call)
    distance_BHQK = call.distance_BHQK().abs().to(p_BHQK.dtype)
    maximum_BHQ = p_BHQK.amax(-1) if p_BHQK.shape[-1] else p_BHQK.new_zeros(p_BHQK.shape[:-1])  # the largest of no keys
    return torch.special.entr(p_BHQK).sum(-1), maximum_BHQ, (p_BHQK * distance_BHQK).sum(-1)


def _selected(call: Call, heads: Some, rows: Some) -> Call:
    call = call.reduced()
    if heads is not None:
        head_H = _index("head", heads, call.q_BHQD.shape[1], call.q_BHQD.device)
        if not len(head_H):
            raise ConfigError(f"none of the {call.q_BHQD.shape[1]} heads is asked for; leave heads out for all of them")
        call = call.of_heads(head_H)
    if rows is not None:
        call = call.of_rows(_index("row", rows, call.q_BHQD.shape[2], call.q_BHQD.device))
    if call.q_BHQD.dtype in (torch.bfloat16, torch.float16):
        call = replace(call, q_BHQD=call.q_BHQD.float(), k_BGKC=call.k_BGKC.float(), v_BGKE=call.v_BGKE.float())
    if isinstance(call.score, Dot) and math.frexp(call.scale)[0] == 0.5:
        # To scale q is less work than to scale q·k, and by a power of two it is exact.
        call = replace(call, q_BHQD=call.q_BHQD * call.scale, scale=1.0)
    return call


def _index(what: str, some: int | slice | Sequence[int], count: int, device: torch.device) -> Tensor:
    chosen = range(some, some + 1) if isinstance(some, int) else range(count)[some] if isinstance(some, slice) else list(some)
    for one in chosen:
        if not -count <= one < count:
            raise ConfigError(f"{what} {one} is asked for; there are {count}, 0 … {count - 1}")
    if isinstance(chosen, range):  # made on the device: a list has to be copied there, and that waits for all that it has to do
        return torch.arange(chosen.start, chosen.stop, chosen.step, device=device) % count
    return torch.tensor([one % count for one in chosen], dtype=torch.long, device=device)
