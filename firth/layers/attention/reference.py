"""The definition, step by step, for any score and any position. Any dtype, float64 included; holds all Q×K weights."""

from __future__ import annotations

import torch
from torch import Tensor

from firth.layers.attention.call import Call, rows_all_see
from firth.layers.attention.score import Dot
from firth.layers.cap import capped
from firth.layers.known import unknown_argument
from firth.layers.position import Bias, Disentangled, Shaw

KNOWS = frozenset({"q_BHQD", "k_BGKC", "v_BGKE", "scale", "score", "mask", "position", "q_start", "head_H", "cap"})


def why_not(call: Call) -> str | None:
    if reason := unknown_argument(call, KNOWS):
        return reason
    if call.position is None or isinstance(call.position, Bias | Shaw | Disentangled):
        return None
    return f"{type(call.position).__name__} is neither a position.Bias nor position.Shaw or Disentangled"


def run(call: Call) -> Tensor:
    p_BHQK = weights(call).to(call.v_BGKE.dtype)
    o_BHQE = (_by_group(p_BHQK, call) @ call.v_BGKE.unsqueeze(2)).flatten(1, 2)
    if isinstance(call.position, Shaw) and call.position.value_RE is not None:
        o_BHQE = o_BHQE + by_distance(p_BHQK, call) @ call.position.value_RE.to(p_BHQK.dtype)
    return o_BHQE


def weights(call: Call) -> Tensor:
    """softmax of the scores over the allowed keys; all zero where no key is allowed."""
    allowed_BHQK = call.allowed_BHQK()
    some_BHQ1 = allowed_BHQK.any(-1, keepdim=True)
    # The softmax of nothing is 0/0: a row without keys sees everything, and its weights are then set to zero. The mask decides
    # whether a row is empty, never the scores, so that a NaN or an infinity among these shows.
    p_BHQK = scores(call).masked_fill(some_BHQ1 & ~allowed_BHQK, -torch.inf).softmax(-1)
    return p_BHQK if _none_empty(call, some_BHQ1) else p_BHQK.masked_fill(~some_BHQ1, 0.0)


def _none_empty(call: Call, some_BHQ1: Tensor) -> bool:
    """True if it is known, without synchronising with a GPU, that no row is empty: that saves a pass over all weights."""
    if torch.compiler.is_compiling():
        return False
    if some_BHQ1.is_cuda:
        return call.mask_key is not None and rows_all_see(call.mask_key)
    return bool(some_BHQ1.all())


def scores(call: Call) -> Tensor:
    """scale · a(q, k), capped, plus the bias of the position."""
    q_BGJQD, k_BGJKD = _by_group(call.q_BHQD, call), call.k_BGKC.unsqueeze(2)
    position = call.position
    if isinstance(position, Shaw) and position.key_RD is not None:
        index_BHQK = position.index_BHQK(call.distance_BHQK())
        return capped(_shaw_scores(call, position.key_RD.to(q_BGJQD.dtype), index_BHQK) * call.scale, call.cap)
    score_BHQK = call.score.between(q_BGJQD, k_BGJKD).flatten(1, 2)
    if isinstance(position, Disentangled):
        terms_BHQK = position.terms_BHQK(call.q_BHQD, call.k_BGKC, call.distance_BHQK())
        score_BHQK = (score_BHQK + terms_BHQK) * position.shrink
    if call.scale != 1:
        score_BHQK = score_BHQK * call.scale
    score_BHQK = capped(score_BHQK, call.cap)
    if isinstance(position, Bias):
        score_BHQK = score_BHQK + position.bias_BHQK(call.distance_BHQK()).to(score_BHQK.dtype)
    return score_BHQK


def _shaw_scores(call: Call, key_RD: Tensor, index_B1QK: Tensor) -> Tensor:
    """a(q, k + a_r). A dot product splits into q·k and q·a_r, which avoids the Q×K×D keys."""
    q_BGJQD, k_BGJKD = _by_group(call.q_BHQD, call), call.k_BGKC.unsqueeze(2)
    if type(call.score) is Dot:
        relative_BHQR = call.q_BHQD @ key_RD.T
        relative_BHQK = relative_BHQR.gather(-1, index_B1QK.expand(*relative_BHQR.shape[:3], -1))
        return (q_BGJQD @ k_BGJKD.mT).flatten(1, 2) + relative_BHQK
    k_BGJQKD = k_BGJKD.unsqueeze(-3) + key_RD[index_B1QK].unsqueeze(1)
    return call.score.between(q_BGJQD, k_BGJQKD).flatten(1, 2)


def by_distance(p_BHQK: Tensor, call: Call) -> Tensor:
    """p_BHQR: the weight that each query gives to each clipped distance."""
    assert isinstance(call.position, Shaw)
    index_BHQK = call.position.index_BHQK(call.distance_BHQK()).expand_as(p_BHQK)
    return p_BHQK.new_zeros(*p_BHQK.shape[:3], call.position.rows).scatter_add(-1, index_BHQK, p_BHQK)


def _by_group(x_BHQn: Tensor, call: Call) -> Tensor:
    """B,H,Q,n → B,G,J,Q,n: query head h reads key/value head h // J."""
    B, H, Q, n = x_BHQn.shape
    return x_BHQn.reshape(B, H // call.heads_per_group, call.heads_per_group, Q, n)
