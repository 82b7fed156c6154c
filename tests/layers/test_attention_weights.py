"""Weights on demand: those of the reference for any heads and rows, statistics of rows, and nothing of Q×K ever held."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from attention_cases import POSITIONS, SCORES, SHAPES, B, Case, H, rules, saying
from largest_tensor import Largest
from shares import half
from tolerance import assert_as_accurate, assert_equal
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention import attend, chunked, mask, reference, score
from firth.layers.attention.call import Call
from firth.layers.attention.weights import statistics, weights
from firth.layers.position import ALiBi, BucketBias, shaw


@pytest.mark.parametrize(
    ("kind", "where"),
    [  # `make test` takes every third, so that each score meets some positions, and each position some scores
        pytest.param(kind, where, marks=[] if (m + n) % 3 == 0 else [pytest.mark.long])
        for m, kind in enumerate(SCORES)
        for n, where in enumerate(POSITIONS)
    ],
)
def test_weights_of_some_heads_and_rows_are_those_of_the_reference(
    kind: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunked, "ELEMENTS", 1)
    for number, (name, rule) in enumerate(rules().items()):
        shape = list(SHAPES)[number % len(SHAPES)]
        case = Case(kind, where, 2, shape)
        call = case.call(case.tensors(), rule.mask)
        whole = reference.weights(call.reduced())
        Q = SHAPES[shape][0]
        with saying(name, shape):
            assert_equal(weights(call), whole)
            assert_equal(weights(call, heads=[3, 0], rows=[Q - 1, 0]), whole[:, [3, 0]][:, :, [Q - 1, 0]])
            assert_equal(weights(call, heads=2, rows=slice(1, None)), whole[:, 2:3, 1:])
            assert_equal(weights(call, heads=-1, rows=-1), whole[:, -1:, -1:])


@pytest.mark.parametrize("where", POSITIONS)
@pytest.mark.parametrize("kind", ["scaled dot", "gaussian", "bilinear", "additive"])
def test_statistics_are_those_of_the_whole_matrix(kind: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked, "ELEMENTS", 1)
    for name in ("full", "strictly causal", "causal & lengths", "causal, by head"):
        case = Case(kind, where, 2, "per row")
        call = case.call(case.tensors(), rules()[name].mask)
        p = reference.weights(call.reduced())
        all_rows = statistics(call)
        entropy = [[[-sum(x * math.log(x) for x in row if x > 0) for row in head] for head in rows] for rows in p.tolist()]
        position = case.q_start.view(-1, 1) + torch.arange(p.shape[2])
        away = (position.view(B, 1, -1, 1) - torch.arange(p.shape[3])).abs()
        with saying(name):
            assert_equal(all_rows.entropy_BHQ, torch.tensor(entropy, dtype=torch.float64))
            assert_equal(all_rows.maximum_BHQ, p.max(-1).values)
            assert_equal(all_rows.distance_BHQ, (p * away).sum(-1))
            some = statistics(call, heads=[1], rows=[2, 0])
            assert_equal(some.entropy_BHQ, all_rows.entropy_BHQ[:, [1]][:, :, [2, 0]])
            assert_equal(some.distance_BHQ, all_rows.distance_BHQ[:, [1]][:, :, [2, 0]])


def test_statistics_are_known_for_one_key_for_equal_keys_and_for_none() -> None:
    x = torch.zeros(1, 1, 8, 4, dtype=torch.float64)
    one = statistics(Call(x, x, x, 1.0, mask=mask.window(1)))
    assert not one.entropy_BHQ.any()
    assert one.maximum_BHQ.eq(1).all()
    assert not one.distance_BHQ.any()
    alike = statistics(Call(x, x, x, 1.0), rows=0)
    assert_equal(alike.entropy_BHQ, torch.full((1, 1, 1), math.log(8), dtype=torch.float64))
    assert_equal(alike.maximum_BHQ, torch.full((1, 1, 1), 1 / 8, dtype=torch.float64))
    assert_equal(alike.distance_BHQ, torch.full((1, 1, 1), 3.5, dtype=torch.float64))
    for nothing in (
        statistics(Call(x, x, x, 1.0, mask=mask.lengths(torch.tensor([0])))),
        statistics(Call(x, x[:, :, :0], x[:, :, :0], 1.0)),
    ):
        for number in (nothing.entropy_BHQ, nothing.maximum_BHQ, nothing.distance_BHQ):
            assert number.shape == (1, 1, 8)
            assert not number.any()


def test_heads_chosen_from_chosen_heads_are_still_known_to_the_mask() -> None:
    case = Case("additive", "alibi", 2)
    call = case.call(case.tensors(), rules()["causal, by head"].mask).reduced()
    whole = reference.weights(call)
    assert_equal(weights(call.of_heads(torch.tensor([3, 2, 1])), heads=[0, 2]), whole[:, [3, 1]])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("where", ["none", "alibi", "t5, both ways", "shaw"])
@pytest.mark.parametrize("kind", SCORES)
def test_low_precision_is_computed_in_float32(kind: str, where: str, dtype: torch.dtype) -> None:
    case = Case(kind, where, 2)
    low = case.tensors(dtype)
    call = case.call(low, mask.CAUSAL).reduced()  # what a score does to q and k alone is done in their own precision
    p = weights(case.call(low, mask.CAUSAL), heads=[1, 2])
    assert p.dtype == torch.float32
    single = call_in(call, torch.float32)
    exact = reference.weights(call_in(call, torch.float64))
    assert_as_accurate(p, reference.weights(single)[:, 1:3], exact[:, 1:3])


def call_in(call: Call, dtype: torch.dtype) -> Call:
    tensors = (tensor.to(dtype) for tensor in (call.q_BHQD, call.k_BGKC, call.v_BGKE))
    return Call(*tensors, call.scale, call.score, call.mask, call.position, call.q_start)


def test_weights_need_no_gradient_even_where_the_queries_do() -> None:
    x = torch.ones(1, 1, 3, 2, requires_grad=True)
    assert not weights(Call(x, x, x, 1.0)).requires_grad
    assert not statistics(Call(x, x, x, 1.0)).entropy_BHQ.requires_grad


LONG = {  # all of them give every key that is seen the same weight
    "dot": (score.SCALED_DOT, None),
    "gaussian": (score.GAUSSIAN, ALiBi(torch.zeros(1))),
    "shaw": (score.SCALED_DOT, shaw(torch.ones(9, 4), torch.ones(9, 4))),
    "t5": (score.DOT, BucketBias(torch.ones(8, 1), bidirectional=True)),
    "additive": (score.additive(torch.ones(4)), None),
}


@pytest.mark.parametrize("kind", half(LONG))
def test_statistics_of_a_long_sequence_never_hold_a_matrix_of_its_length(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the length, the same largest tensor, until that is one row (or the keys) and grows as the length does."""
    (chosen, where), elements = LONG[kind], 1 << 16
    monkeypatch.setattr(chunked, "ELEMENTS", elements)
    for length in (1024, 4096 if kind == "dot" else 2048):
        x = torch.zeros(1, 1, length, 4)
        call = Call(x, x, x, 1.0, chosen, mask.CAUSAL, where)
        with Largest() as largest:
            of_rows = statistics(call)
        assert largest.numel <= elements <= length**2 // 16
        assert_equal(of_rows.maximum_BHQ.double(), 1 / torch.arange(1, length + 1).double().view(1, 1, -1), share=1e-6)


@pytest.mark.parametrize("kind", ["additive", "dot", "gaussian, shaw"])
def test_chunked_holds_no_matrix_of_the_sequence_forward_or_backward(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor the Q×K×D of the additive score, nor of Shaw's keys under a score that is no dot product."""
    elements, D = 1 << 13, 4
    monkeypatch.setattr(chunked, "ELEMENTS", elements)
    for length in (128, 256):
        x, w, table = (torch.ones(*shape, requires_grad=True) for shape in ((1, 1, length, D), (D,), (9, D)))
        chosen = {"additive": score.additive(w), "dot": score.DOT, "gaussian, shaw": score.GAUSSIAN}[kind]
        with Largest() as largest:
            attend(x, x, x, score=chosen, position=shaw(table) if "shaw" in kind else None, kernel="chunked").sum().backward()
        assert x.grad is not None
        assert largest.numel <= elements < length**2
    monkeypatch.setattr(chunked, "ELEMENTS", 1 << 30)
    with Largest() as largest:
        attend(x, x, x, score=score.additive(w), kernel="chunked").sum().backward()
    assert largest.numel >= length**2 * D, "the measure sees what an undivided run holds"


def test_chunked_keeps_nothing_of_a_chunk_for_the_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory that autograd saves grows with Q + K, not with Q·K."""
    monkeypatch.setattr(chunked, "ELEMENTS", 1 << 12)
    kept: list[int] = []
    for length in (64, 128, 256):
        storages: dict[int, int] = {}

        def pack(tensor: Tensor, storages: dict[int, int] = storages) -> Tensor:
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // tensor.element_size()
            return tensor

        x = torch.ones(1, 1, length, 4, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            o = attend(x, x, x, score=score.additive(torch.ones(4, requires_grad=True)), kernel="chunked")
        kept.append(sum(storages.values()))
        o.sum().backward()
        assert x.grad is not None
    assert kept[2] <= 4.5 * kept[0] + 64, kept


# Refusals: what was given, what was expected.


@pytest.mark.parametrize("ask", [weights, statistics])
def test_heads_and_rows_out_of_range_are_refused(ask: Any) -> None:
    case = Case("scaled dot", "none", 2)
    call = case.call(case.tensors(), mask.CAUSAL)
    with pytest.raises(ConfigError, match=r"there is no head 4; choose from 0 … 3"):
        ask(call, heads=[0, H])
    with pytest.raises(ConfigError, match=r"there is no head -5; choose from 0 … 3"):
        ask(call, heads=-5)
    with pytest.raises(ConfigError, match=r"there is no row 5; choose from 0 … 4"):
        ask(call, rows=5)
    with pytest.raises(ConfigError, match=r"heads is empty; choose some of the 4 heads"):
        ask(call, heads=[])
