"""A Triton kernel for the step of a decoder: few queries, each row at its own position in memory of a fixed size.

A program holds the queries of one row that share a key/value head, J heads × Q queries, and reads only the keys that they see:
how many these are is a number on the device, so that a recorded step (decoding/graphs/) stays right as the text grows. Long
texts are divided among several programs, whose results are then combined:

    o = Σ_s e^(m_s − m) a_s / Σ_s e^(m_s − m) l_s        m = max m_s

with the maximum m_s, the sum l_s of the exponentials and the weighted values a_s of each part (Dao et al. 2023, Flash-Decoding).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from firth.layers.attention.call import Call
from firth.layers.attention.mask import CAUSAL, FULL, Lengths, StrictlyCausal, Window
from firth.layers.attention.score import Dot
from firth.layers.kernels.attention import WIDEST, no_triton
from firth.layers.known import unknown_argument
from firth.layers.position import ALiBi, BucketBias

if TYPE_CHECKING:
    from firth.layers.kernels.triton.few_queries_code import Fresh

MOST_ROWS = 64  # queries of one program
_MASKS = "causal, strictly causal, a window, or lengths"
KNOWS = frozenset({"q_BHQD", "k_BGKC", "v_BGKE", "scale", "score", "mask", "position", "q_start", "head_H", "cap"})


def why_not(call: Call) -> str | None:
    q, v = call.q_BHQD, call.v_BGKE
    if reason := unknown_argument(call, KNOWS):
        return reason
    if reason := no_triton(q.device.type):
        return reason
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, call.k_BGKC, v)):
        return "the kernel for few queries has no gradient"
    if q.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"the Triton kernels compute in float32 and cannot give {q.dtype}"
    if max(q.shape[3], v.shape[3]) > WIDEST:
        return f"the Triton kernels hold heads of at most {WIDEST} on chip; q is {q.shape[3]} wide and v {v.shape[3]}"
    if call.heads_per_group * q.shape[2] > MOST_ROWS:
        return f"{call.heads_per_group} heads × {q.shape[2]} queries are more than {MOST_ROWS}"
    if not min(*q.shape, *call.k_BGKC.shape, *v.shape):
        return "there is nothing to compute: q, k or v is empty"
    if type(call.score) is not Dot:
        return f"it computes dot products; {type(call.score).__name__} is not one"
    if call.position is not None and type(call.position) not in (ALiBi, BucketBias):
        return f"it knows ALiBi and T5's buckets; {type(call.position).__name__} is neither"
    if isinstance(call.q_start, Tensor) and call.q_start.ndim == 2:
        return "it needs queries at consecutive positions"
    if isinstance(call.mask, Lengths) and isinstance(call.q_start, Tensor):
        return "it takes one number per row, either a start or a length"
    if not (call.mask in (CAUSAL, FULL) or type(call.mask) in (StrictlyCausal, Window, Lengths)):
        return f"it knows these masks: {_MASKS}"
    return None


def takes_fresh(call: Call) -> bool:
    """True if `run` may place q, k and v of the newest token itself."""
    one = call.q_BHQD.shape[2] == 1 and call.k_BGKC.shape[3] == call.v_BGKE.shape[3] and isinstance(call.q_start, Tensor)
    return one and why_not(call) is None and (call.mask == CAUSAL or type(call.mask) is Window)


def run(call: Call, fresh: Fresh | None = None) -> Tensor:
    """With `fresh`, what FixedKeyValue.extend and the turning of q and k would do is done on the way."""
    from firth.layers.kernels.triton.few_queries_code import few_queries

    position, mask = call.position, call.mask
    table_HR, left = None, 0
    if isinstance(position, BucketBias):
        table_HR, left = position.table_HR().contiguous(), position.left
    return few_queries(
        call.q_BHQD,
        call.k_BGKC,
        call.v_BGKE,
        call.scale,
        cap=call.cap,
        start=call.q_start,
        length_B=mask.length_B if isinstance(mask, Lengths) else None,
        everything=mask == FULL,
        strict=isinstance(mask, StrictlyCausal),
        span=mask.span if isinstance(mask, Window) else None,
        slope_H=position.slope_H if isinstance(position, ALiBi) else None,
        table_HR=table_HR,
        left=left,
        fresh=fresh,
    )
