"""linear_attend(): its forms against the loops of firth/oracles, each other, softmax attention, and known answers, in float64."""

from __future__ import annotations

import math
from typing import Any, get_args

import pytest
import torch
from shares import half
from tolerance import assert_equal
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention import attend, mask
from firth.layers.attention.score import DOT
from firth.layers.linear_attention import (
    ELU_PLUS_ONE,
    IDENTITY,
    LEAST_LOG_GATE,
    TAYLOR,
    Form,
    LinearState,
    chunked,
    coefficients,
    linear_attend,
)
from firth.layers.linear_attention.layers import LogProduct
from firth.oracles import linear_attention as oracle

B, H, D, E = 2, 3, 4, 5
KINDS = ("linear", "gated linear", "taylor", "gated and normalised")
FORMS: tuple[Form, ...] = ("chunked", "recurrent", "parallel")
ORACLES = {ELU_PLUS_ONE: oracle.elu_plus_one, IDENTITY: oracle.identity, TAYLOR: oracle.taylor}


def given(kind: str, T: int, seed: int = 0) -> tuple[list[Tensor], dict[str, Any]]:
    """The leaves q, k, v and perhaps the gates; and the settings."""
    generator = torch.Generator().manual_seed(seed)
    leaves = [torch.randn(B, H, T, w, generator=generator, dtype=torch.float64) for w in (D, D, E)]
    if "gated" in kind:
        leaves.append(-(torch.rand(B, H, T, D, generator=generator, dtype=torch.float64) ** 3))
    features = {"linear": ELU_PLUS_ONE, "gated linear": IDENTITY, "taylor": TAYLOR}.get(kind, ELU_PLUS_ONE)
    return [x.requires_grad_() for x in leaves], {"features": features, "normalized": kind != "gated linear"}


def run(
    leaves: list[Tensor], settings: dict[str, Any], form: Form, state: LinearState | None = None
) -> tuple[Tensor, LinearState]:
    gates = {"log_gate_BHTF": leaves[3]} if len(leaves) == 4 else {}
    return linear_attend(*leaves[:3], **gates, **settings, form=form, state=state)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_form_equals_the_loops(kind: str, form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked, "CHUNK", 8)
    monkeypatch.setattr(chunked, "CHUNK_OF_TAYLOR", 8)
    leaves, settings = given(kind, 21)
    arrays = [x.detach().numpy() for x in leaves]
    gate = None if len(arrays) == 3 else arrays[3].copy()
    expected = oracle.attend(
        *arrays[:3],
        ORACLES[settings["features"]],
        None if gate is None else torch.tensor(gate).exp().numpy(),
        settings["normalized"],
    )
    assert_equal(run(leaves, settings, form)[0], torch.from_numpy(expected))


@pytest.mark.parametrize("form", ["chunked", "parallel"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("T", half([1, 64, 150]))
def test_the_forms_agree_in_value_state_and_gradient(kind: str, form: Form, T: int) -> None:
    leaves, settings = given(kind, T)
    past = LinearState(torch.rand_like(run(leaves, settings, "recurrent")[1].S_BHFE), 7)  # type: ignore[arg-type]
    by_form = []
    for one in (form, "recurrent"):
        o, state = run(leaves, settings, one, past)  # type: ignore[arg-type]
        assert state.S_BHFE is not None
        assert state.length == T + 7
        loss = (o * torch.linspace(0, 1, o.numel(), dtype=o.dtype).view_as(o)).sum() + state.S_BHFE.square().sum()
        by_form.append([o, state.S_BHFE, *torch.autograd.grad(loss, leaves)])
    for one_of, other in zip(*by_form, strict=True):
        assert_equal(one_of, other)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_in_pieces_is_the_same_text(kind: str, form: Form) -> None:
    leaves, settings = given(kind, 100)
    whole, last = run(leaves, settings, form)
    state, pieces = LinearState(), []
    for first, end in ((0, 1), (1, 70), (70, 100)):
        o, state = run([x[:, :, first:end] for x in leaves], settings, form, state)
        pieces.append(o)
    assert_equal(torch.cat(pieces, 2), whole)
    assert state.S_BHFE is not None
    assert last.S_BHFE is not None
    assert_equal(state.S_BHFE, last.S_BHFE)


def test_the_state_does_not_grow_with_the_text() -> None:
    sizes = []
    for T in (1, 300):
        _, state = run(*given("linear", T), "chunked")
        assert state.S_BHFE is not None
        sizes.append(state.S_BHFE.shape)
    assert sizes[0] == sizes[1] == (B, H, D, E + 1)


def test_selected_rows_of_a_state_continue_their_texts() -> None:
    leaves, settings = given("gated linear", 12)
    rows = torch.tensor([1, 1, 0])
    _, state = run([x[:, :, :8] for x in leaves], settings, "chunked")
    o, _ = run([x[rows][:, :, 8:] for x in leaves], settings, "chunked", state.select(rows))
    assert_equal(o, run(leaves, settings, "chunked")[0][rows][:, :, 8:])


def test_gates_of_one_forget_nothing() -> None:
    leaves, _ = given("linear", 90)
    open_ = torch.zeros_like(leaves[1])
    o, _ = linear_attend(*leaves, log_gate_BHTF=open_, features=ELU_PLUS_ONE, form="chunked")
    assert_equal(o, linear_attend(*leaves, form="chunked")[0])


def test_equal_queries_and_keys_average_the_past() -> None:
    """φ(q)·φ(k) is then the same for all pairs: o_t is the mean of v_1 … v_t."""
    v = torch.randn(B, H, 70, E, dtype=torch.float64)
    q = torch.ones(B, H, 70, D, dtype=torch.float64)
    mean = v.cumsum(2) / torch.arange(1, 71, dtype=torch.float64)[:, None]
    for features in (ELU_PLUS_ONE, TAYLOR):
        assert_equal(linear_attend(q, q, v, features=features, form="chunked")[0], mean)


def test_taylor_features_multiply_to_the_polynomial_and_approach_the_softmax() -> None:
    (q, k, v), settings = given("taylor", 30)
    s = q @ k.mT / math.sqrt(D)
    assert_equal(TAYLOR.map(q) @ TAYLOR.map(k).mT, 1 + s + s**2 / 2)
    small = 0.05
    exact = attend(small * q, k, v, mask=mask.CAUSAL, kernel="reference")
    o, _ = linear_attend(small * q, k, v, **settings)
    largest = (small * s.abs().max()) ** 3  # the error of the polynomial is of third order
    assert (o - exact).abs().max() < largest * v.abs().max()


@pytest.mark.parametrize("form", FORMS)
def test_the_strongest_decay_stays_finite(form: Form) -> None:
    """In float32, gates at their least for a whole chunk: e^−160, and the recurrence in float64 is the truth."""
    leaves, settings = given("gated linear", 130)
    leaves[3] = torch.full_like(leaves[3], -1e6).requires_grad_()
    exact, _ = run([*leaves[:3], torch.full_like(leaves[3], LEAST_LOG_GATE)], settings, "recurrent")
    narrow = [x.detach().float().requires_grad_() for x in leaves]
    o, _ = run(narrow, settings, form)
    assert (o.double() - exact).abs().max() < 1e-5 * exact.abs().max()
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(o.sum(), narrow))


@pytest.mark.parametrize("kind", ["linear", "taylor"])
def test_the_weights_are_those_of_a_softmax_of_logarithms(kind: str) -> None:
    """Attention maps rely on it: p = softmax(ln φ(q)·φ(k))."""
    (q, k, v), settings = given(kind, 20)
    p = coefficients(q, k, **settings)
    assert_equal(p.sum(-1), torch.ones_like(p.sum(-1)))
    assert_equal(p @ v, run([q, k, v], settings, "recurrent")[0])
    log_product = LogProduct(settings["features"])
    assert_equal(attend(q, k, v, score=log_product, mask=mask.CAUSAL, scale=1.0, kernel="reference"), p @ v)
    assert log_product != DOT


def test_a_later_token_changes_nothing_before_it() -> None:
    for kind in KINDS:
        leaves, settings = given(kind, 80)
        changed = [x.detach().clone() for x in leaves]
        for x in changed:
            x[:, :, 50:] *= 0.5
        before, after = (run(some, settings, "chunked")[0][:, :, :50] for some in (leaves, changed))
        assert_equal(before, after)


def test_what_does_not_fit_is_refused() -> None:
    (q, k, v), _ = given("linear", 5)
    with pytest.raises(ConfigError, match="at least one token"):
        linear_attend(q, k[:, :, :4], v)
    with pytest.raises(ConfigError, match="one per number"):
        linear_attend(q, k, v, log_gate_BHTF=torch.zeros(B, H, 5, 1, dtype=torch.float64))
    with pytest.raises(ConfigError, match='no form "fast"'):
        linear_attend(q, k, v, form="fast")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="cannot run this call"):
        linear_attend(q.float(), k.float(), v.float(), features=TAYLOR, form="triton")
    assert set(FORMS) | {"auto", "triton"} == set(get_args(Form))
