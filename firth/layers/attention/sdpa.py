"""torch's scaled_dot_product_attention, told as little about the mask as the case allows: no mask is the fastest mask."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from firth.layers.attention.call import Call
from firth.layers.attention.mask import CAUSAL, FULL


def why_not(call: Call) -> str | None:
    return None


def run(call: Call) -> Tensor:
    q, k, v = call.q_BHQD, call.k_BGKD, call.v_BGKE
    grouped = call.heads_per_group > 1
    if call.mask == FULL or _last_query(call):
        return F.scaled_dot_product_attention(q, k, v, scale=call.scale, enable_gqa=grouped)
    if call.mask == CAUSAL and q.shape[2] == k.shape[2] and call.starts_at_zero:
        # is_causal aligns the triangle top-left, so it is right only for a square that starts at 0.
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=call.scale, enable_gqa=grouped)
    allowed_BHQK = call.allowed_BHQK()
    some_BHQ1 = allowed_BHQK.any(-1, keepdim=True)
    # A row without keys would be 0/0 on some backends: let it see everything, then take its output back.
    mask_BHQK = (allowed_BHQK | ~some_BHQ1).expand(q.shape[0], -1, q.shape[2], k.shape[2])
    o_BHQE = F.scaled_dot_product_attention(q, k, v, attn_mask=mask_BHQK, scale=call.scale, enable_gqa=grouped)
    return o_BHQE.masked_fill(~some_BHQ1, 0.0)


def _last_query(call: Call) -> bool:
    """One query that stands at the last key: everything is in its past, so causal is full. The step of a cached decoder."""
    Q, K = call.q_BHQD.shape[2], call.k_BGKD.shape[2]
    return call.mask == CAUSAL and Q == 1 and isinstance(call.q_start, int) and call.q_start == K - 1
