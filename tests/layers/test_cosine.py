"""The cosine score: what it promises beyond the product tests of attend(), which include it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from tolerance import assert_equal
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention import attend, mask, reference, score, sdpa
from firth.layers.attention.call import Call
from firth.layers.attention.config import AttentionConfig
from firth.layers.attention.score.cosine import unit
from firth.layers.self_attention import Attend
from firth.models import TransformerConfig, language_model
from firth.models.counting import WeightGroup, count
from firth.models.initialise import initialise

B, H, G, T, D = 2, 4, 2, 6, 8


def some(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def qkv() -> tuple[Tensor, Tensor, Tensor]:
    return some(B, H, T, D), some(B, G, T, D, seed=1), some(B, G, T, D, seed=2)


def test_scores_do_not_depend_on_lengths_and_are_bounded_by_tau() -> None:
    (q, k, v), log_tau_H = qkv(), some(H, seed=3)
    call = Call(q, k, v, 1.0, score.cosine(log_tau_H)).reduced()
    s_BHQK = reference.scores(call)
    assert (s_BHQK.abs() <= log_tau_H.exp().view(-1, 1, 1) * (1 + 1e-12)).all()
    longer = Call(1e4 * q, 1e-3 * k, v, 1.0, score.cosine(log_tau_H)).reduced()
    assert_equal(reference.scores(longer), s_BHQK)


def test_auto_runs_it_as_a_dot_product_on_the_fast_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    ran, plain = [], sdpa.run
    monkeypatch.setattr(sdpa, "run", lambda call: (ran.append(call.score), plain(call))[1])
    attend(*qkv(), score=score.cosine(torch.zeros(H, dtype=torch.float64)), mask=mask.CAUSAL)
    model = language_model(TransformerConfig(kind="transformer", width=16, depth=2, heads=2, context=8, score="cosine"), 7)
    initialise(model, torch.Generator().manual_seed(0))
    model(torch.zeros(1, 8, dtype=torch.long))
    assert ran == [score.DOT] * 3


def test_a_zero_vector_scores_zero_and_its_gradient_is_finite() -> None:
    q, k, v = qkv()
    q[0, 0, 0] = 0
    q.requires_grad_()
    s_BHQK = reference.scores(Call(q, k, v, 1.0, score.cosine(torch.zeros(H, dtype=torch.float64))).reduced())
    assert s_BHQK[0, 0, 0].abs().max() == 0
    s_BHQK.sum().backward()  # type: ignore[no-untyped-call]
    assert q.grad is not None
    assert q.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_is_rounded_once(dtype: torch.dtype) -> None:
    x = some(1, 2, 3, 64).to(dtype)
    truth = x.double() / x.double().norm(dim=-1, keepdim=True)
    assert unit(x).dtype == dtype
    assert ((unit(x).double() - truth).abs() <= truth.abs() * torch.finfo(dtype).eps).all()


def test_under_autocast_a_model_trains_and_tau_has_a_gradient() -> None:
    config = TransformerConfig(kind="transformer", width=16, depth=1, heads=2, context=8, score="cosine")
    model: Any = language_model(config, 7)
    initialise(model, torch.Generator().manual_seed(0))
    with torch.autocast("cpu", torch.bfloat16):
        logits_BTV, _ = model(torch.arange(7)[None])
    logits_BTV.float().square().sum().backward()
    tau = model.blocks[0].attention.attend.log_tau_H
    assert tau.tolist() == pytest.approx([math.log(math.sqrt(8))] * 2)
    assert tau.grad.abs().min() > 0


def test_an_attend_whose_q_and_k_are_not_reduced_reduces_them_itself() -> None:
    """As in RNNsearch, which has no projections to reduce them in."""
    (q, k, v), plain = qkv(), Attend(AttentionConfig(heads=H, score="cosine"), D, reduced=False).double()
    with torch.no_grad():
        plain.log_tau_H.copy_(some(H, seed=3))  # type: ignore[operator, union-attr]
    o = plain(q, k, v, mask.FULL, None, 0)
    assert_equal(o, attend(q, k, v, score=score.cosine(some(H, seed=3)), kernel="reference"))
    ready = Attend(AttentionConfig(heads=H, score="cosine"), D).double()
    reduced = unit(q, some(H, seed=3)), unit(k)
    assert_equal(ready(*reduced, v, mask.FULL, None, 0), o)


def test_one_temperature_for_all_heads_is_the_same_for_each() -> None:
    q, k, v = qkv()
    shared, each = (torch.full(shape, 0.7, dtype=torch.float64, requires_grad=True) for shape in ((), (H,)))
    o, truth = (attend(q, k, v, score=score.cosine(tau)) for tau in (shared, each))
    assert_equal(o.detach(), truth.detach())
    o.square().sum().backward()  # type: ignore[no-untyped-call]
    truth.square().sum().backward()  # type: ignore[no-untyped-call]
    assert shared.grad is not None
    assert each.grad is not None
    assert_equal(shared.grad, each.grad.sum())


def test_a_temperature_for_other_heads_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"score\.cosine's log_tau has shape \(3,\); expected \(4,\) .* or \(\)"):
        attend(*qkv(), score=score.cosine(torch.zeros(3, dtype=torch.float64)))
    with pytest.raises(ConfigError, match="q has width 8 and k has width 4"):
        attend(some(1, 2, 3, 8), some(1, 2, 3, 4), some(1, 2, 3, 4), score=score.cosine(torch.zeros(2, dtype=torch.float64)))


def test_counting_names_the_temperatures() -> None:
    config = TransformerConfig(kind="transformer", width=16, depth=3, heads=2, context=8, score="cosine")
    assert WeightGroup("score", (1,), 6) in count(language_model(config, 7)).parts
