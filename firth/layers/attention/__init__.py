"""attend(): every attention in firth is computed by this function.

    s_bhqk = cap(scale · a(q_bhq, k_bgk)) + bias_h(k − q) g = h // (H // G),  cap(s) = c tanh(s / c), if there is one
    p_bhqk = softmax over { k : allowed(b, h, q, k) }     all zero where that set is empty
    o_bhqe = Σ_k p_bhqk (v_bgke + relative_value(k − q)_e)

The score a has a file per kind (score/); a position acts on q and k (rotary), on the score (ALiBi, T5's buckets, DeBERTa's
disentangled terms) or on keys and values (Shaw); a mask is a predicate over absolute positions (mask.py); heads share keys and
values by G alone. A kernel is a module with `why_not(call)` and `run(call)`: it lists the scores and positions it computes and
refuses all others with a reason. "auto" takes the first kernel that can run; a kernel chosen by name runs or raises, never a
silent fallback.
"""

from __future__ import annotations

from types import ModuleType
from typing import Literal, get_args

import torch
from torch import Tensor

from firth.errors import ConfigError
from firth.layers import position as position
from firth.layers.attention import chunked, flex, reference, sdpa
from firth.layers.attention import mask as mask
from firth.layers.attention import score as score
from firth.layers.attention.call import Call
from firth.layers.attention.checks import check
from firth.layers.attention.score import Score
from firth.layers.kernels import attention as fused
from firth.layers.kernels.triton import few_queries

Kernel = Literal["auto", "sdpa", "triton", "few_queries", "flex", "chunked", "reference"]
_KERNELS: dict[str, ModuleType] = {
    "sdpa": sdpa,
    "triton": fused,
    "few_queries": few_queries,
    "flex": flex,
    "chunked": chunked,
    "reference": reference,
}


def attend(
    q_BHQD: Tensor,
    k_BGKC: Tensor,
    v_BGKE: Tensor,
    *,
    score: score.Score = score.SCALED_DOT,
    mask: mask.Mask = mask.FULL,
    position: position.Relative | position.Rotation | None = None,
    scale: float | None = None,
    cap: float | None = None,
    q_start: int | Tensor = 0,
    kernel: Kernel = "auto",
) -> Tensor:
    """For each query of `q_BHQD` the mean of the values `v_BGKE`, weighted by how well their keys `k_BGKC` match it: o_BHQE.

    `score`: how a key matches a query; score.SCALED_DOT, DOT, bilinear(M), … `mask`: which keys a query may attend to; masks are
    joined with & and |. `position`: relative positions, such as ALiBi, or a rotation of q and k. `scale`: a factor on the scores;
    by default the score's own. `cap`: scores become cap · tanh(score / cap). `q_start`: the position of the first query, one for
    all rows or one per row. `kernel`: the implementation; "auto" takes the first that can compute this call, and one that is
    named refuses what it cannot."""
    if not isinstance(score, Score):
        raise ConfigError(f"score is {score!r}; expected a Score, such as score.SCALED_DOT or score.bilinear(M)")
    if scale is None:
        scale = score.default_scale(q_BHQD.shape[-1])
    call = Call(q_BHQD, k_BGKC, v_BGKE, scale, score, mask, position, q_start, cap=cap)
    check(call)
    return run(call, kernel)


def run(call: Call, kernel: Kernel = "auto") -> Tensor:
    call = call.reduced()
    if kernel == "auto":
        return _first_that_can(call).run(call)  # type: ignore[no-any-return]
    if kernel not in _KERNELS:
        raise ConfigError(f'there is no kernel "{kernel}"; choose {", ".join(get_args(Kernel)[:-1])} or {get_args(Kernel)[-1]}')
    chosen = _KERNELS[kernel]
    if reason := chosen.why_not(call):
        raise ConfigError(f'kernel "{kernel}" cannot run this call: {reason}; kernel="auto" picks one that can')
    return chosen.run(call)  # type: ignore[no-any-return]


def _first_that_can(call: Call) -> ModuleType:
    if call.in_fixed_memory:
        return _first_that_never_waits(call)
    if sdpa.why_not(call) is None and (not call.q_BHQD.is_cuda or sdpa.holds_no_matrix(call) or sdpa.holds_a_small_one(call)):
        return sdpa
    if call.q_BHQD.is_cuda:
        # Only capped scores need FlexAttention while decoding, and it would compile for every length.
        growing = call.cap is not None and not torch.is_grad_enabled()
        for kernel in (fused, sdpa) if growing else (fused, flex, sdpa):
            if kernel.why_not(call) is None:
                return kernel
    if torch.compiler.is_exporting() and reference.why_not(call) is None:
        return reference  # the number of chunks depends on the length, and that of a graph must not
    if reason := chunked.why_not(call):
        raise ConfigError(f"no kernel can run this call: {reason}")
    return chunked


def _first_that_never_waits(call: Call) -> ModuleType:
    """The first kernel that does not ask the GPU for a number, such as the blocks that a mask leaves: a recorded step cannot
    wait."""
    for kernel in (few_queries, sdpa):
        if kernel.why_not(call) is None:
            return kernel
    return reference
