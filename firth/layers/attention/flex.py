"""torch's FlexAttention, compiled: any mask that can be written as a predicate, on a GPU.

It skips the blocks that a mask leaves empty, whatever its form. The gradient of a learned table is slow in it, so learned tables
have kernels of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from firth.layers.attention.call import Call, MaskKey, learned_slopes
from firth.layers.attention.mask import FULL
from firth.layers.attention.score import Dot, Gaussian, half_square
from firth.layers.cap import capped
from firth.layers.known import unknown_argument
from firth.layers.position import ALiBi, BucketBias

SCORES, POSITIONS = (Dot, Gaussian), (ALiBi, BucketBias)  # exactly these
ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
KNOWS = frozenset({"q_BHQD", "k_BGKC", "v_BGKE", "scale", "score", "mask", "position", "q_start", "head_H", "cap"})


def why_not(call: Call) -> str | None:
    q = call.q_BHQD
    if reason := unknown_argument(call, KNOWS):
        return reason
    if call.cap is not None and type(call.score) is not Dot:
        return "FlexAttention is given only part of this score, and a cap needs all of it"
    if not q.is_cuda:
        return f"FlexAttention is compiled for a GPU; q is on {q.device}"
    if q.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"FlexAttention does not support {q.dtype}"
    if type(call.score) not in SCORES:
        return "FlexAttention computes dot products; this score is not one"
    if call.position is not None and type(call.position) not in POSITIONS:
        return f"FlexAttention is given ALiBi and T5's buckets as positions; {type(call.position).__name__} is neither"
    if isinstance(call.position, BucketBias) and call.position.table_NH.requires_grad and torch.is_grad_enabled():
        return "FlexAttention is hundreds of times too slow for the gradient of a learned table"
    if learned_slopes(call):
        return "FlexAttention has no gradient for ALiBi's slopes"
    if min(q.shape[3], call.v_BGKE.shape[3]) < 16:
        return f"FlexAttention needs heads of at least 16; q is {q.shape[3]} wide and v {call.v_BGKE.shape[3]}"
    return None


def run(call: Call) -> Tensor:
    start_B = _start_B(call)
    o_BHQE: Tensor = _compiled()(
        call.q_BHQD,
        call.k_BGKC,
        call.v_BGKE,
        score_mod=_score_mod(call, start_B),
        block_mask=_block_mask(call, start_B),
        scale=call.scale,
        enable_gqa=call.heads_per_group > 1,
    )
    return o_BHQE


@lru_cache
def _compiled() -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=False)


def _start_B(call: Call) -> Tensor | None:
    """The position of each row's first query, as a tensor: an integer would be a constant, and every new one a new
    compilation."""
    return None if call.starts_at_zero else call.position_BQ()[:, 0].expand(call.q_BHQD.shape[0])


def _score_mod(call: Call, start_B: Tensor | None) -> ScoreMod | None:
    """The cap of scale · q·k and the terms added to it. FlexAttention calls it for each pair, with the indices as scalars."""
    terms: list[Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = []
    cap = call.cap

    def distance(b: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return k - q if start_B is None else k - q - start_B[b]

    if type(call.score) is Gaussian:
        bias_BGK, rep = call.scale * half_square(call.k_BGKC.float()), call.heads_per_group
        terms.append(lambda b, h, q, k: bias_BGK[b, h // rep, k])
    match call.position:
        case ALiBi(slope_H):
            terms.append(lambda b, h, q, k: -slope_H[h] * distance(b, q, k).abs())
        case BucketBias() as buckets:
            table_HR, left, right = buckets.table_HR(), buckets.left, buckets.right
            terms.append(lambda b, h, q, k: table_HR[h, distance(b, q, k).clamp(-left, right) + left])
        case None:
            pass
    if not terms and cap is None:
        return None

    def score_mod(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        score = capped(score, cap)
        for term in terms:
            score = score + term(b, h, q, k)
        return score

    return score_mod


def _block_mask(call: Call, start_B: Tensor | None) -> Any:
    if call.mask == FULL:
        return None
    if call.mask_key is not None and call.spans is not None:
        return _kept_block_mask(call.mask_key)
    B, H, Q, _ = call.q_BHQD.shape

    def allowed(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return call.mask.allowed(b, h, q if start_B is None else q + start_B[b], k)

    return _made(allowed, B, H, Q, call.k_BGKC.shape[2], call.q_BHQD.device)


@lru_cache(maxsize=16)
def _kept_block_mask(key: MaskKey) -> Any:
    """Worth keeping: building one evaluates every pair. A mask that has spans does not depend on the head."""
    with torch.inference_mode(False):
        return _made(
            lambda b, h, q, k: key.mask.allowed(b, h, q + key.start, k),
            key.B if key.B > 1 else None,
            None,
            key.Q,
            key.K,
            key.device,
        )


def _made(allowed: Any, B: int | None, H: int | None, Q: int, K: int, device: torch.device) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    return create_block_mask(allowed, B, H, Q, K, device=str(device))
