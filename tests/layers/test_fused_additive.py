"""The fused additive score against the equations in float64. Runs on a GPU, or anywhere under TRITON_INTERPRET=1."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from interpreter import INTERPRETED
from tolerance import assert_as_accurate
from torch import Tensor

from firth.layers.attention.key_ranges import Spans

pytest.importorskip("triton", reason="the fused kernels are written in Triton")

DEVICE = "cpu" if INTERPRETED else "cuda"
# The interpreter multiplies bfloat16 matrices as if their bits were integers.
DTYPES = [torch.float32] if INTERPRETED else [torch.float32, torch.bfloat16, torch.float16]

pytestmark = [
    pytest.mark.long,
    pytest.mark.usefixtures("triton_interpreter"),
    pytest.mark.skipif(
        not (INTERPRETED or torch.cuda.is_available()), reason="Triton needs a GPU, or its interpreter: TRITON_INTERPRET=1"
    ),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # the interpreter is numpy, which warns where exp gives inf
]

Inputs = tuple[Tensor, Tensor, Tensor, Tensor]


def spans(kind: str, B: int, Q: int, K: int) -> Spans:
    q_1Q = torch.arange(Q, device=DEVICE, dtype=torch.int32)[None]
    none_1Q, all_1Q = torch.zeros_like(q_1Q), torch.full_like(q_1Q, K)
    past_1Q = (q_1Q + 1 + K - Q).clamp(0, K)  # the last query sees the last key
    match kind:
        case "full":
            return Spans(none_1Q, all_1Q, None, None)
        case "causal":
            return Spans(none_1Q, past_1Q, None, None)
        case "window":
            return Spans((past_1Q - 5).clamp(0), past_1Q, None, None)
        case "lengths":  # the first row has no keys at all
            length_B1 = (torch.arange(B, device=DEVICE, dtype=torch.int32) * (K // 2 + 1)).clamp(max=K)[:, None]
            return Spans(none_1Q.expand(B, Q), length_B1.expand(B, Q), None, None)
        case "all but self":
            return Spans(none_1Q, all_1Q, (past_1Q - 1).clamp(0), past_1Q)
        case "inside out":  # by turns: lo > hi, a hole that is all there is, and everything
            turn_1Q = q_1Q % 3
            lo_1Q, hi_1Q = torch.where(turn_1Q == 0, K, none_1Q), torch.where(turn_1Q == 0, 0, all_1Q)
            return Spans(lo_1Q, hi_1Q, none_1Q, torch.where(turn_1Q == 1, K, none_1Q))
        case _:
            raise AssertionError(kind)


def visible(given: Spans, K: int) -> Tensor:
    """B or 1, 1, Q, K."""
    k_K = torch.arange(K, device=DEVICE)
    allowed = (k_K >= given.lo_BQ[..., None]) & (k_K < given.hi_BQ[..., None])
    if given.hole_lo_BQ is not None and given.hole_hi_BQ is not None:
        allowed &= (k_K < given.hole_lo_BQ[..., None]) | (k_K >= given.hole_hi_BQ[..., None])
    return allowed[:, None]


def dense(q: Tensor, k: Tensor, w: Tensor, v: Tensor, given: Spans, scale: float) -> Tensor:
    ratio = q.shape[1] // k.shape[1]
    k_BHKA, v_BHKE = k.repeat_interleave(ratio, 1), v.repeat_interleave(ratio, 1)
    t_BHQKA = torch.tanh(q[:, :, :, None] + k_BHKA[:, :, None])
    s_BHQK = scale * (t_BHQKA * w[:, None, None].to(q.dtype)).sum(-1)
    allowed = visible(given, k.shape[2])
    some = allowed.any(-1, keepdim=True)
    p_BHQK = s_BHQK.masked_fill(~allowed & some, -torch.inf).softmax(-1)
    return (p_BHQK @ v_BHKE).masked_fill(~some, 0.0)


def inputs(
    B: int, H: int, G: int, Q: int, K: int, A: int, E: int, dtype: torch.dtype = torch.float32, size: float = 1.0
) -> Inputs:
    draw = torch.Generator().manual_seed(B + H + Q + K + A + E)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw).to(DEVICE, dtype)

    q, k, v = (normal(B, n, h, d).transpose(1, 2) for n, h, d in ((Q, H, A), (K, G, A), (K, G, E)))
    # Scores of about 1. Backward makes them once more, in another order of summation: where one weight is nearly 1, the
    # difference does not cancel as it does in a softmax that divides by its own sum.
    return q * size, k * size, normal(H, A).float() / math.sqrt(A), v


def with_gradients(what: Any, given: Inputs, dtype: torch.dtype) -> list[Tensor]:
    """The value and the four gradients, from the same output gradient in every precision."""
    leaves = [x.detach().to(dtype).requires_grad_() for x in given]
    o = what(*leaves)
    do = torch.randn(o.shape, generator=torch.Generator().manual_seed(5)).to(given[0].dtype).to(o.device, o.dtype)
    return [o.detach(), *torch.autograd.grad(o, leaves, do)]


def fused(given: Inputs, seen: Spans, scale: float, cut: Any = None) -> list[Tensor]:
    from firth.layers.kernels.attention.additive import additive

    leaves = [x.detach().requires_grad_() for x in given]
    o = additive(*leaves, seen, scale, cut)
    do = torch.randn(o.shape, generator=torch.Generator().manual_seed(5)).to(o.device, o.dtype)
    return [o.detach(), *torch.autograd.grad(o, leaves, do)]


def check(given: Inputs, seen: Spans, scale: float, cut: Any = None) -> None:
    dtype = given[0].dtype
    plain = with_gradients(lambda *x: dense(*x, seen, scale), given, dtype)
    exact = with_gradients(lambda *x: dense(*x, seen, scale), given, torch.float64)
    for name, fast, rough, true in zip(("o", "dq", "dk", "dw", "dv"), fused(given, seen, scale, cut), plain, exact, strict=True):
        try:
            assert_as_accurate(fast.to(dtype), rough, true)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["full", "causal", "window", "lengths", "all but self", "inside out"])
def test_values_and_gradients_are_accurate_for_every_mask(kind: str, dtype: torch.dtype) -> None:
    B, Q, K = 2, 21, 37
    check(inputs(B, 2, 1, Q, K, 16, 16, dtype), spans(kind, B, Q, K), 1.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("G", [4, 2, 1])
def test_query_heads_share_key_heads(G: int, dtype: torch.dtype) -> None:
    check(inputs(1, 4, G, 9, 18, 16, 16, dtype), spans("causal", 1, 9, 18), 1.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("Q", "K", "A", "E"), [(1, 70, 16, 24), (70, 2, 24, 16), (19, 66, 40, 5), (66, 35, 7, 40), (18, 20, 100, 130)]
)
def test_ragged_lengths_and_widths_are_computed(Q: int, K: int, A: int, E: int, dtype: torch.dtype) -> None:
    check(inputs(1, 1, 1, Q, K, A, E, dtype), spans("full", 1, Q, K), 0.6)


def test_half_precision_is_accurate() -> None:
    check(inputs(1, 2, 1, 19, 21, 24, 16, torch.float16), spans("all but self", 1, 19, 21), 1.0)


def test_a_single_key_is_copied_and_its_score_does_not_matter() -> None:
    given = inputs(1, 1, 1, 20, 1, 16, 16)
    o, dq, dk, dw, dv = fused(given, spans("full", 1, 20, 1), 1.0)
    do = torch.randn(o.shape, generator=torch.Generator().manual_seed(5)).to(DEVICE)
    assert_as_accurate(o, given[3].expand_as(o), given[3].expand_as(o).double())
    assert_as_accurate(dv, do.sum(2, keepdim=True), do.double().sum(2, keepdim=True))
    # dS = dO·v − dO·o, two sums of 16 that differ by their rounding; dk and dw add up 20 of them.
    rounding = 16 * torch.finfo(torch.float32).eps * float((do * given[3]).abs().max())
    assert max(float(dq.abs().max()), float(dk.abs().max()) / 20, float(dw.abs().max()) / 20) <= rounding


@pytest.mark.parametrize("kind", ["causal", "window"])
def test_queries_and_keys_may_differ_in_number_under_a_mask(kind: str) -> None:
    check(inputs(1, 2, 2, 30, 70, 16, 16), spans(kind, 1, 30, 70), 1.7)


def test_saturation_gives_no_nan() -> None:
    q, k, w, v = inputs(1, 1, 1, 12, 20, 16, 16, size=30.0)
    k[:, :, 0] = -60.0
    q[:, :, 0] = 60.0
    q[:, :, 1] = -60.0
    check((q, k, w, v), spans("full", 1, 12, 20), 1.0)


def test_last_axis_need_not_be_contiguous() -> None:
    q, k, w, v = inputs(1, 2, 1, 6, 17, 16, 24)
    seen = spans("causal", 1, 6, 17)
    for given, expected in zip(
        fused((q.mT.contiguous().mT, k, w, v.mT.contiguous().mT), seen, 1.0), fused((q, k, w, v), seen, 1.0), strict=True
    ):
        assert torch.equal(given, expected)


def test_output_is_laid_out_by_position() -> None:
    o = fused(inputs(2, 2, 1, 5, 5, 16, 24), spans("full", 2, 5, 5), 1.0)[0]
    assert o.transpose(1, 2).is_contiguous()


def test_twice_gives_the_same_bits() -> None:
    given, seen = inputs(1, 2, 1, 33, 18, 16, 16), spans("full", 1, 33, 18)
    assert all(torch.equal(one, other) for one, other in zip(fused(given, seen, 1.0), fused(given, seen, 1.0), strict=True))


def test_an_atomic_sum_of_dq_is_accurate() -> None:
    from firth.layers.kernels.attention.additive import tiles

    given = inputs(2, 2, 1, 21, 37, 24, 16)
    check(given, spans("lengths", 2, 21, 37), 1.0, tiles(24, 16, torch.float32)._replace(atomic=1))
    cut = tiles(24, 16, torch.float32)._replace(atomic=1, s1=4, s2=2, r1=4, r2=4, a2=8)
    check(given, spans("all but self", 2, 21, 37), 0.5, cut)


def test_nan_is_not_hidden() -> None:
    q, k, w, v = inputs(1, 1, 1, 6, 40, 16, 16)
    k[:, :, 3] = torch.nan
    o, *_, dw, _ = fused((q, k, w, v), spans("full", 1, 6, 40), 1.0)
    assert o.isnan().all()
    assert dw.isnan().all()


def test_scores_of_minus_infinity_give_nan_and_an_empty_row_gives_zero() -> None:
    q, k, w, v = inputs(2, 1, 1, 6, 20, 16, 16)
    w[:] = 0.0
    w[:, 0] = -torch.inf  # times tanh(q + k) > 0
    q[..., 0] = k[..., 0] = 1.0
    o = fused((q, k, w, v), spans("lengths", 2, 6, 20), 1.0)[0]
    assert (o[0] == 0).all()  # no keys, by the spans
    assert o[1].isnan().all()


def test_nan_of_a_key_that_nobody_sees_in_another_block_stays_there() -> None:
    q, k, w, v = inputs(1, 1, 1, 5, 200, 16, 16)
    k[:, :, 150:] = torch.nan
    v[:, :, 150:] = torch.nan
    seen = spans("full", 1, 5, 200)
    o, dq, *_ = fused((q, k, w, v), seen._replace(hi_BQ=seen.hi_BQ.clamp(max=64)), 1.0)
    assert o.isfinite().all()
    assert dq.isfinite().all()


def test_fake_operators_agree_with_the_real_ones() -> None:
    from firth.layers.kernels.attention.additive import operator, tiles

    q, k, w, v = inputs(1, 2, 1, 5, 6, 16, 24)
    leaves = [x.detach().requires_grad_() for x in (q, k, w, v)]
    seen = spans("full", 1, 5, 6)
    torch.library.opcheck(operator, (*leaves, *seen, 1.0, list(tiles(16, 24, q.dtype))))
