"""firth's own Triton kernels, for what other libraries do not fuse, or not well: the learned tables of T5 and Shaw, the Gaussian
score with its norms in float32, the additive score, and any mask that leaves each query one interval of keys."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from firth.layers.attention.call import Call, MaskKey, kept_spans, learned_slopes
from firth.layers.attention.score import Additive, Dot, Gaussian
from firth.layers.known import unknown_argument
from firth.layers.position import ALiBi, BucketBias, Shaw

if TYPE_CHECKING:
    from firth.layers.kernels.attention.blocks import BlockPlan, Tiles
    from firth.layers.kernels.attention.flash import Band

SCORES, POSITIONS = (Dot, Gaussian, Additive), (ALiBi, BucketBias, Shaw)  # exactly these
WIDEST = 256
# Read once, here: torch.compile can trace neither a search for modules nor the environment.
_TRITON, _INTERPRETED = find_spec("triton") is not None, os.environ.get("TRITON_INTERPRET") == "1"
KNOWS = frozenset({"q_BHQD", "k_BGKC", "v_BGKE", "scale", "score", "mask", "position", "q_start", "head_H"})


def why_not(call: Call) -> str | None:
    q, v = call.q_BHQD, call.v_BGKE
    if call.cap is not None:
        return f"the Triton kernels do not cap the scores; the cap is {call.cap}"
    if reason := unknown_argument(call, KNOWS):
        return reason
    if reason := no_triton(q.device.type):
        return reason
    if q.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"the Triton kernels compute in float32 and cannot give {q.dtype}"
    if max(q.shape[3], v.shape[3]) > WIDEST:
        return f"the Triton kernels hold heads of at most {WIDEST} on chip; q is {q.shape[3]} wide and v {v.shape[3]}"
    if not min(*q.shape, *call.k_BGKC.shape, *v.shape):
        return "there is nothing to compute: q, k or v is empty"
    if type(call.score) not in SCORES:
        return f"the Triton kernels compute dot, Gaussian and additive scores; {type(call.score).__name__} is none of these"
    if call.position is not None and type(call.position) not in POSITIONS:
        return f"the Triton kernels know ALiBi, T5's buckets and Shaw's tables; {type(call.position).__name__} is none of these"
    if type(call.score) is Additive and call.position is not None:
        return "the fused additive score has no relative positions"
    if type(call.position) is Shaw and type(call.score) is not Dot:
        return "Shaw's positions are fused for dot products only"
    if learned_slopes(call):
        return "the fused kernels have no gradient for ALiBi's slopes"
    if call.position is not None and isinstance(call.q_start, Tensor) and call.q_start.ndim == 2:
        return "the fused relative positions need queries at consecutive positions"
    return None if call.spans is not None else "the mask does not leave each query one interval of keys"


def no_triton(device: str) -> str | None:
    if not _TRITON:
        return "triton is not installed"
    if device != "cuda" and not _INTERPRETED:
        return f"Triton kernels need a GPU; q is on {device}"
    return None


def run(call: Call) -> Tensor:
    if type(call.score) is Additive:
        return _additive(call)
    return _flash(call)


def _additive(call: Call) -> Tensor:
    from firth.layers.kernels.attention.additive import additive

    assert isinstance(call.score, Additive)
    assert call.spans is not None
    return additive(call.q_BHQD, call.k_BGKC, call.score.w_HA, call.v_BGKE, call.spans, call.scale)


def _flash(call: Call) -> Tensor:
    from firth.layers.kernels.attention.flash import flash

    assert call.spans is not None
    position, band = call.position, _band(call)
    o_BHQE, p_BHQR = flash(
        call.q_BHQD,
        call.k_BGKC,
        call.v_BGKE,
        call.spans,
        call.scale,
        key_bias_BGK=call.scale * _HalfSquare.apply(call.k_BGKC) if isinstance(call.score, Gaussian) else None,  # type: ignore[no-untyped-call]
        slope_H=position.slope_H if isinstance(position, ALiBi) else None,
        band=band,
        q_start=call.q_start,
        causal=call.mask.is_causal(),
        plan=_plan(call, band is not None),
    )
    if p_BHQR is not None:
        assert isinstance(position, Shaw)
        assert position.value_RE is not None
        o_BHQE = o_BHQE + p_BHQR @ position.value_RE[: p_BHQR.shape[3]].to(p_BHQR.dtype)
    return o_BHQE


def _plan(call: Call, banded: bool) -> BlockPlan | None:
    """The blocks to visit, kept as long as the mask is the same; None: flash() makes the plan."""
    from firth.layers.kernels.attention import blocks

    if call.mask_key is None:
        return None
    tiles = blocks.tiles(call.q_BHQD.shape[3], call.v_BGKE.shape[3], banded, call.q_BHQD.dtype)
    return _kept_plan(call.mask_key, tiles, torch.is_grad_enabled())


@lru_cache(maxsize=32)
def _kept_plan(key: MaskKey, tiles: Tiles, backward: bool) -> BlockPlan:
    from firth.layers.kernels.attention import blocks

    spans = kept_spans(key)
    assert spans is not None
    with torch.inference_mode(False):
        return blocks.plan(spans, key.Q, key.K, tiles, backward)


def _band(call: Call) -> Band | None:
    """The terms that depend on the clipped distance: a table of scores for each query, and whether to return the weights by
    distance. Under a causal mask the distances after the query are left out."""
    from firth.layers.kernels.attention.flash import Band

    B, H, Q, _ = call.q_BHQD.shape
    position, causal = call.position, call.mask.is_causal()
    match position:
        case BucketBias():
            left, right = position.left, 0 if causal else position.right
            table_HR = position.table_HR()[:, : left + right + 1]
            return Band(left, right, table_HR[None, :, None].expand(B, H, Q, -1), weights=False)
        case Shaw(key_RD=key_RD, value_RE=value_RE):
            left, right = position.left, 0 if causal else position.right
            table_BHQR = None
            if key_RD is not None:
                table_BHQR = (call.q_BHQD * call.scale) @ key_RD[: left + right + 1].to(call.q_BHQD.dtype).T
            return Band(left, right, table_BHQR, weights=value_RE is not None)
        case ALiBi() | None:
            return None
        case _:
            raise AssertionError(f"why_not() refuses {type(position).__name__}")


class _HalfSquare(torch.autograd.Function):
    """−½‖k‖² in float32, from k in its own precision; its derivative is −k."""

    @staticmethod
    def forward(ctx: Any, k_BGKD: Tensor) -> Tensor:
        ctx.save_for_backward(k_BGKD)
        half: Tensor = -0.5 * torch.linalg.vector_norm(k_BGKD, dim=-1, dtype=torch.float32).square()
        return half

    @staticmethod
    def backward(ctx: Any, *g_BGK: Tensor) -> Tensor:
        (k_BGKD,) = ctx.saved_tensors
        dk_BGKD: Tensor = k_BGKD * -g_BGK[0].to(k_BGKD.dtype).unsqueeze(-1)
        return dk_BGKD
