"""torch's scaled_dot_product_attention, called with as little of a mask as the case allows: without one it is fastest."""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from firth.layers.attention import chunked
from firth.layers.attention.call import Call, MaskKey, rows_all_see
from firth.layers.attention.mask import CAUSAL, FULL
from firth.layers.attention.score import Dot, Gaussian, half_square
from firth.layers.known import unknown_argument
from firth.layers.position import Bias

SCORES = (Dot, Gaussian)  # exactly these; positions: any Bias, which is written out
LARGEST_KEPT = 1 << 22  # bytes of a written-out mask that is kept for the next layer and step
_FEW = 128  # queries and keys of a small mask
_WITHOUT_PLANS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_FASTEST_FIRST = [SDPBackend.CUDNN_ATTENTION, *_WITHOUT_PLANS]
KNOWS = frozenset({"q_BHQD", "k_BGKC", "v_BGKE", "scale", "score", "mask", "position", "q_start", "head_H"})


def why_not(call: Call) -> str | None:
    if call.cap is not None:
        return f"scaled_dot_product_attention does not cap the scores; the cap is {call.cap}"
    if reason := unknown_argument(call, KNOWS):
        return reason
    if call.position is None and type(call.score) is Dot:
        return None
    if type(call.score) not in SCORES:
        return "torch's scaled_dot_product_attention computes dot products; this score is not one"
    if type(call.score) is Gaussian and call.q_BHQD.dtype not in (torch.float32, torch.float64):
        return f"the −½‖k‖² of the Gaussian score would be rounded to {call.q_BHQD.dtype}"
    if call.position is not None and not isinstance(call.position, Bias):
        return f"scaled_dot_product_attention takes a bias on the score; {type(call.position).__name__} is not one"
    return None


def holds_no_matrix(call: Call) -> bool:
    """True if it needs no mask or bias of Q×K elements."""
    return call.position is None and (call.mask == FULL or _square_causal(call) or _seen_by_one_query(call) is not None)


def holds_a_small_one(call: Call) -> bool:
    """True if writing out the mask takes less time than launching a kernel that needs none: a batch of sentences, and each step
    of decoding their translation. Under torch.compile launches cost the same, and the shapes would become guards."""
    if torch.compiler.is_compiling():
        return False
    B, Q, K = len(call.q_BHQD), call.q_BHQD.shape[2], call.k_BGKC.shape[2]
    return call.position is None and max(Q, K) <= _FEW and B * Q * K <= LARGEST_KEPT


def run(call: Call) -> Tensor:
    o_BHQE = _run(call)
    return chunked.run(call) if _hides(call, o_BHQE) else o_BHQE


def _hides(call: Call, o_BHQE: Tensor) -> bool:
    """True if a zero may stand for a NaN: torch's CPU kernel returns zeros for a query whose scores are all NaN or −inf. So rows
    that begin with zero are checked; if q and k are finite and their products cannot overflow, the zeros are right."""
    if not o_BHQE.is_cpu or torch.compiler.is_compiling():
        return False
    if not o_BHQE.numel() or not call.k_BGKC.numel():
        return False
    if bool((o_BHQE if o_BHQE.shape[2] == 1 else o_BHQE.select(3, 0)).all()):
        return False
    q, k = call.q_BHQD.abs().amax().float(), call.k_BGKC.abs().amax().float()
    if type(call.score) is Gaussian:
        q = k = torch.maximum(q, k)  # the squares are part of the score
    return not bool((q * k * call.q_BHQD.shape[3] * max(1.0, abs(call.scale))).isfinite())


def _run(call: Call) -> Tensor:
    q, k, v = call.q_BHQD, call.k_BGKC, call.v_BGKE
    if type(call.score) is Gaussian:
        # −½‖q − k‖² = (q, 1)·(k, −½‖k‖²) − ½‖q‖², and the last term cancels in the softmax.
        q, k = torch.cat((q, torch.ones_like(q[..., :1])), -1), torch.cat((k, half_square(k).unsqueeze(-1)), -1)
    if call.position is None and q.shape[2] > 1:
        if call.mask == FULL:
            return _attention(call, q, k, v)
        if _square_causal(call):
            return _attention(call, q, k, v, causal=True)
    if (seen := _seen_by_one_query(call)) is not None:
        lo, hi = seen
        if lo >= hi:
            return q.new_zeros(*q.shape[:3], v.shape[3])
        bias_BH1K = None if call.position is None else _bias(call)[..., lo:hi].expand(q.shape[0], -1, -1, -1)
        if hi - lo < k.shape[2]:
            k, v = k[:, :, lo:hi], v[:, :, lo:hi]
        return _attention(call, q, k, v, bias_BH1K)
    mask_BHQK, empty_BHQ1 = _dense(call)
    if call.position is not None:
        mask_BHQK = _bias(call).masked_fill(~mask_BHQK, -torch.inf)
    o_BHQE = _attention(call, q, k, v, mask_BHQK.expand(q.shape[0], -1, q.shape[2], k.shape[2]))
    return o_BHQE if empty_BHQ1 is None else o_BHQE.masked_fill(empty_BHQ1, 0.0)


def _dense(call: Call) -> tuple[Tensor, Tensor | None]:
    """The mask as a tensor, and the rows that see nothing. Those would be 0/0 on some backends: here they see everything, and
    their output is set to zero afterwards."""
    key = call.mask_key
    if key is None or call.spans is None or key.B * key.Q * key.K > LARGEST_KEPT:
        return _opened(call.allowed_BHQK())
    return _kept_dense(key)


@lru_cache(maxsize=8)
def _kept_dense(key: MaskKey) -> tuple[Tensor, Tensor | None]:
    with torch.inference_mode(False):  # made while generating, it must still serve training
        row_B, q_Q, k_K = (torch.arange(n, device=key.device) for n in (key.B, key.Q, key.K))
        allowed_BHQK = key.mask.allowed(
            row_B.view(-1, 1, 1, 1), row_B.new_zeros(1, 1, 1, 1), q_Q.view(1, 1, -1, 1) + key.start, k_K.view(1, 1, 1, -1)
        )
        mask_BHQK, empty_BHQ1 = _opened(allowed_BHQK)
        return mask_BHQK, None if rows_all_see(key) else empty_BHQ1


def _opened(allowed_BHQK: Tensor) -> tuple[Tensor, Tensor | None]:
    empty_BHQ1 = ~allowed_BHQK.any(-1, keepdim=True)
    return allowed_BHQK | empty_BHQ1, empty_BHQ1


def _attention(call: Call, q: Tensor, k: Tensor, v: Tensor, mask_BHQK: Tensor | None = None, causal: bool = False) -> Tensor:
    grouped = call.heads_per_group > 1
    if not q.is_cuda:
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask_BHQK, is_causal=causal, scale=call.scale, enable_gqa=grouped
        )
    # cuDNN is the fastest on Hopper but plans for each new length, for 70 ms: good for training, bad for a growing cache.
    trains = torch.is_grad_enabled() and q.requires_grad
    with sdpa_kernel(_FASTEST_FIRST if trains else _WITHOUT_PLANS, set_priority=True):
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask_BHQK, is_causal=causal, scale=call.scale, enable_gqa=grouped
        )


def _bias(call: Call) -> Tensor:
    assert isinstance(call.position, Bias)
    return call.position.bias_BHQK(call.distance_BHQK()).to(call.q_BHQD.dtype)


def _square_causal(call: Call) -> bool:
    """is_causal aligns the triangle top-left, so it is right only for a square that starts at 0."""
    return call.starts_at_zero and call.mask == CAUSAL and call.q_BHQD.shape[2] == call.k_BGKC.shape[2]


def _seen_by_one_query(call: Call) -> tuple[int, int] | None:
    """The keys that a single query sees, if they are one interval and the same in all rows: then nothing needs a mask. This is
    the step of a cached decoder."""
    if call.q_BHQD.shape[2] != 1 or not isinstance(call.q_start, int):
        return None
    K = call.k_BGKC.shape[2]
    if call.mask is CAUSAL:  # as its `keys` says, but faster: every layer of every step comes here
        return 0, min(K, call.q_start + 1)
    span = call.mask.keys(None, call.q_start, K)
    if span is None or (span.hole is not None and span.hole[0] < span.hole[1]):
        return None
    return max(0, int(span.lo)), min(K, int(span.hi))
