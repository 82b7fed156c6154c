"""Masks: each against the same in plain Python, composed at random, and as runs of keys for the fused kernels."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from attention_cases import OddHeadsSeeTheirOwnPosition, saying
from hypothesis import given, settings
from hypothesis import strategies as st
from shares import half
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention import attend, mask
from firth.layers.attention.call import Call
from firth.layers.attention.checks import check
from firth.layers.attention.key_ranges import Span, Spans

B, H, LONGEST = 2, 2, 20


class Said(NamedTuple):
    """A mask, the same in plain Python, and how many holes its runs of keys have; None where it is no run with one hole."""

    mask: mask.Mask
    allowed: Callable[[int, int, int, int], bool]
    holes: int | None

    def __and__(self, other: Said) -> Said:
        left, right = self.allowed, other.allowed
        holes = None if self.holes is None or other.holes is None or self.holes + other.holes > 1 else self.holes + other.holes
        return Said(self.mask & other.mask, lambda b, h, q, k: left(b, h, q, k) and right(b, h, q, k), holes)

    def __or__(self, other: Said) -> Said:
        left, right = self.allowed, other.allowed
        holes = 1 if self.holes == other.holes == 0 else None  # between two runs
        return Said(self.mask | other.mask, lambda b, h, q, k: left(b, h, q, k) or right(b, h, q, k), holes)


def windowed(span: int) -> Said:
    return Said(mask.window(span), lambda b, h, q, k: q - span < k <= q, 0)


def surrounded(span: int) -> Said:
    return Said(mask.around(span), lambda b, h, q, k: abs(q - k) <= span // 2, 0)


def padded(length: list[int]) -> Said:
    return Said(mask.lengths(torch.tensor(length)), lambda b, h, q, k: k < length[b], 0)


def prefixed(length: list[int]) -> Said:
    return Said(mask.prefix(torch.tensor(length)), lambda b, h, q, k: k <= q or k < length[b], 0)


def packed(document: list[list[int]]) -> Said:
    def together(b: int, h: int, q: int, k: int) -> bool:
        return len(set(document[b][min(q, k) : max(q, k) + 1])) == 1

    return Said(mask.documents(torch.tensor(document)), together, 0)


SIMPLE = {
    "full": Said(mask.FULL, lambda b, h, q, k: True, 0),
    "causal": Said(mask.CAUSAL, lambda b, h, q, k: k <= q, 0),
    "strictly causal": Said(mask.STRICTLY_CAUSAL, lambda b, h, q, k: k < q, 0),
    "all but self": Said(mask.ALL_BUT_SELF, lambda b, h, q, k: k != q, 1),
    "window": windowed(3),
    "window around": surrounded(3),
    "lengths": padded([0, 4]),
    "prefix": prefixed([5, 2]),
    "documents": packed([[1, 1, 2, 2, 1] + [1] * 15, [5, 0, 0, 0, 0] + [3] * 15]),
    "by head": Said(OddHeadsSeeTheirOwnPosition(), lambda b, h, q, k: h % 2 == 0 or q == k, None),
}

lengths = st.lists(st.integers(0, 9), min_size=B, max_size=B)
numbers = st.lists(st.integers(0, 2), min_size=LONGEST, max_size=LONGEST)
simple = st.sampled_from(["full", "causal", "strictly causal", "all but self", "by head"]).map(lambda name: SIMPLE[name])
leaves = st.one_of(
    simple,
    simple,
    st.integers(1, 8).map(windowed),
    lengths.map(padded),
    lengths.map(prefixed),
    st.lists(numbers, min_size=B, max_size=B).map(packed),
)
compositions = st.recursive(
    leaves,
    lambda inner: st.tuples(inner, inner, st.booleans()).map(lambda t: t[0] & t[1] if t[2] else t[0] | t[1]),
    max_leaves=4,
)
starts = st.one_of(st.integers(0, 12), st.lists(st.integers(0, 12), min_size=B, max_size=B))  # beyond the last key, too


def asked(rule: mask.Mask, Q: int, K: int, start: int | list[int] = 0) -> Call:
    q, kv = torch.zeros(B, H, Q, 2), torch.zeros(B, 1, K, 2)
    call = Call(q, kv, kv, 1.0, mask=rule, q_start=start if isinstance(start, int) else torch.tensor(start))
    check(call)
    return call


def table(call: Call) -> Tensor:
    return call.allowed_BHQK().expand(B, H, call.q_BHQD.shape[2], call.k_BGKC.shape[2])


def by_loops(allowed: Callable[..., bool], Q: int, K: int, start: int | list[int]) -> Tensor:
    first = [start] * B if isinstance(start, int) else start
    rows = [[[[allowed(b, h, first[b] + q, k) for k in range(K)] for q in range(Q)] for h in range(H)] for b in range(B)]
    return torch.tensor(rows, dtype=torch.bool).view(B, H, Q, K)


def covered(spans: Spans, K: int) -> Tensor:
    k_K = torch.arange(K)
    seen = (k_K >= spans.lo_BQ.unsqueeze(-1)) & (k_K < spans.hi_BQ.unsqueeze(-1))
    if spans.hole_lo_BQ is not None and spans.hole_hi_BQ is not None:
        seen &= ~((k_K >= spans.hole_lo_BQ.unsqueeze(-1)) & (k_K < spans.hole_hi_BQ.unsqueeze(-1)))
    return seen


@pytest.mark.parametrize("one", SIMPLE)
def test_every_mask_and_every_pair_of_masks_is_what_plain_python_says(one: str) -> None:
    pairs = {f"{one} & {two}": SIMPLE[one] & SIMPLE[two] for two in SIMPLE}
    pairs |= {f"{one} | {two}": SIMPLE[one] | SIMPLE[two] for two in SIMPLE}
    for name, said in {one: SIMPLE[one], **pairs}.items():
        for Q, K, start in ((6, 6, 0), (2, 6, 3), (3, 6, [5, 1]), (1, 4, 8)):
            call, truth = asked(said.mask, Q, K, start), by_loops(said.allowed, Q, K, start)
            with saying(name, Q, K, start):
                assert torch.equal(table(call), truth)
                assert (call.spans is None) == (said.holes is None)
                if call.spans is not None:
                    assert torch.equal(covered(call.spans, K).unsqueeze(1).expand(B, H, Q, K), truth)
                if said.mask.is_causal():
                    assert not (truth & (call.distance_BHQK() > 0)).any()


@pytest.mark.parametrize("one", half(sorted(set(SIMPLE) - {"by head"})))
def test_runs_of_three_masks_are_what_they_allow(one: str) -> None:
    """Among them runs that end before they begin, as a document beyond the length leaves: they must not spoil a union."""
    names = sorted(set(SIMPLE) - {"by head"})
    for Q, K, start in ((6, 6, 0), (3, 6, [4, 6])):
        tables = {name: by_loops(SIMPLE[name].allowed, Q, K, start)[:, 0] for name in names}
        for two, three in itertools.product(names, names):
            a, b, c = SIMPLE[one], SIMPLE[two], SIMPLE[three]
            for said, truth in (
                ((a & b) | c, (tables[one] & tables[two]) | tables[three]),
                ((a | b) & c, (tables[one] | tables[two]) & tables[three]),
            ):
                spans = asked(said.mask, Q, K, start).spans
                with saying(one, two, three, Q, start):
                    assert (spans is None) == (said.holes is None)
                    assert spans is None or torch.equal(covered(spans, K).expand(B, Q, K), truth)


@settings(max_examples=100)
@given(said=compositions, Q=st.integers(1, 6), K=st.integers(0, 7), start=starts)
def test_a_composed_mask_allows_what_plain_python_allows(said: Said, Q: int, K: int, start: Any) -> None:
    assert torch.equal(table(asked(said.mask, Q, K, start)), by_loops(said.allowed, Q, K, start))


@settings(max_examples=100)
@given(said=compositions, Q=st.integers(1, 6), K=st.integers(0, 7), start=starts)
def test_the_runs_of_keys_of_a_mask_are_what_it_allows(said: Said, Q: int, K: int, start: Any) -> None:
    call = asked(said.mask, Q, K, start)
    assert (call.spans is None) == (said.holes is None), "there are runs for every mask that is one run with at most one hole"
    if call.spans is not None:
        assert torch.equal(covered(call.spans, K).unsqueeze(1).expand(B, H, Q, K), by_loops(said.allowed, Q, K, start))
        for bound in call.spans:
            if bound is not None:
                assert bound.dtype == torch.int32
                assert bound.shape in ((1, Q), (B, Q))
                assert bound.numel() == 0 or 0 <= bound.min() <= bound.max() <= K


@settings(max_examples=100)
@given(said=compositions, Q=st.integers(1, 6), K=st.integers(1, 7), start=starts)
def test_a_mask_that_calls_itself_causal_lets_nobody_see_a_later_key(said: Said, Q: int, K: int, start: Any) -> None:
    call = asked(said.mask, Q, K, start)
    if said.mask.is_causal():
        assert not (table(call) & (call.distance_BHQK() > 0)).any()


def test_masks_know_whether_they_are_causal() -> None:
    causal = [mask.CAUSAL, mask.STRICTLY_CAUSAL, mask.window(3), mask.FULL & mask.CAUSAL, mask.CAUSAL | mask.window(2)]
    assert all(rule.is_causal() for rule in causal)
    one = mask.lengths(torch.tensor([1]))
    others = [mask.FULL, mask.ALL_BUT_SELF, one, mask.prefix(torch.tensor([1])), mask.CAUSAL | one, mask.FULL & one]
    assert not any(rule.is_causal() for rule in others)


class Own(mask.Mask):
    """A mask of a user's that says its runs itself, with bounds beyond the keys, as a Span allows."""

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return torch.ones_like(q == k) & (k != 2)

    def keys(self, b: Tensor | None, q: Any, K: int) -> Span:
        return Span(-3, 99, (2, 3))


def test_bounds_beyond_the_keys_are_brought_back_to_them() -> None:
    call = asked(Own(), 3, 5)
    assert call.spans is not None
    assert [bound.tolist() for bound in call.spans if bound is not None] == [[[0] * 3], [[5] * 3], [[2] * 3], [[3] * 3]]
    assert torch.equal(covered(call.spans, 5).unsqueeze(1).expand(B, H, 3, 5), table(call))


def test_runs_of_keys_that_know_no_rows_are_kept_for_the_next_call() -> None:
    first, second = asked(mask.window(3), 4, 6, 1).spans, asked(mask.window(3), 4, 6, 1).spans
    assert first is second
    assert asked(mask.window(3), 4, 6, 2).spans is not first


@pytest.mark.parametrize("make", [mask.lengths, mask.prefix])
def test_lengths_that_are_written_over_have_new_runs(make: Callable[[Tensor], mask.Mask]) -> None:
    """A cached result is discarded as soon as it is no longer valid."""
    length_B = torch.tensor([1, 3])
    rules = [make(length_B), make(length_B) & mask.window(4), make(length_B) | mask.STRICTLY_CAUSAL]
    for start in (0, 1, [0, 1]):
        for length in ([1, 3], [4, 2], [0, 5]):
            length_B.copy_(torch.tensor(length))
            for rule in rules:
                call = asked(rule, 4, 5, start)
                assert call.spans is not None
                assert torch.equal(covered(call.spans, 5).unsqueeze(1).expand(B, H, 4, 5), table(call))


def test_runs_of_a_mask_made_without_gradients_in_mind_are_right_too() -> None:
    with torch.inference_mode():  # its tensors do not count their changes
        rule = mask.lengths(torch.tensor([1, 3])) & mask.CAUSAL
        call = asked(rule, 4, 5)
        assert call.spans is not None
        assert torch.equal(covered(call.spans, 5).unsqueeze(1).expand(B, H, 4, 5), table(call))


def test_masks_compose_as_sets() -> None:
    one, two = mask.window(3), mask.lengths(torch.tensor([4, 1]))
    tables = [table(asked(rule, 6, 6)) for rule in (one, two, one & two, one | two)]
    assert torch.equal(tables[2], tables[0] & tables[1])
    assert torch.equal(tables[3], tables[0] | tables[1])
    assert torch.equal(table(asked(mask.CAUSAL & mask.FULL, 6, 6)), table(asked(mask.CAUSAL, 6, 6)))
    assert table(asked(mask.CAUSAL | mask.FULL, 6, 6)).all()


@pytest.mark.parametrize("span", [1, 2, 3, 10])
def test_a_window_holds_at_most_span_keys_self_included(span: int) -> None:
    allowed_QK = table(asked(mask.window(span), 6, 6))[0, 0]
    assert allowed_QK.sum(-1).tolist() == [min(span, t + 1) for t in range(6)]
    assert allowed_QK.diagonal().all()
    if span == 1:
        assert torch.equal(allowed_QK, torch.eye(6, dtype=torch.bool))


def test_chasing_sees_the_fbi_is() -> None:
    """Strictly causal: what comes before, and not itself. The first word sees nothing."""
    words = ["the", "FBI", "is", "chasing", "a", "criminal", "on", "the", "run"]
    allowed_QK = table(asked(mask.STRICTLY_CAUSAL, len(words), len(words)))[0, 0]
    seen = [[word for word, yes in zip(words, row, strict=True) if yes] for row in allowed_QK.tolist()]
    assert seen[words.index("chasing")] == ["the", "FBI", "is"]
    assert seen[0] == []
    causal_QK = table(asked(mask.CAUSAL, len(words), len(words)))[0, 0]
    assert torch.equal(causal_QK, allowed_QK | torch.eye(len(words), dtype=torch.bool))


def test_a_prefix_is_read_both_ways_and_written_on_from() -> None:
    allowed_QK = table(asked(mask.prefix(torch.tensor([3, 0])), 5, 5))
    assert allowed_QK[0, 0].int().tolist() == [[1, 1, 1, 0, 0]] * 3 + [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    assert torch.equal(allowed_QK[1, 0], torch.ones(5, 5).tril().bool())


def test_a_number_that_comes_again_later_is_another_document() -> None:
    allowed_QK = table(asked(mask.documents(torch.tensor([[3, 3, 0, 3], [1, 1, 1, 1]])), 4, 4))
    assert allowed_QK[0, 0].int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert allowed_QK[1].all()


# Refusals: what was given, what was expected.


@pytest.mark.parametrize("span", [0, -1])
def test_a_window_of_nothing_is_refused(span: int) -> None:
    with pytest.raises(ConfigError, match=rf"window of {span} keys.*at least 1"):
        mask.window(span)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("make", [mask.lengths, mask.prefix])
def test_a_mask_of_lengths_must_have_one_per_row(make: Callable[[Tensor], mask.Mask], count: int) -> None:
    for rule in (make(torch.full((count,), 4)), mask.CAUSAL & make(torch.full((count,), 4)), make(torch.ones(count)) | mask.FULL):
        with pytest.raises(ConfigError, match=rf"mask\.(lengths|prefix) was given {count} lengths for a batch of 2"):
            asked(rule, 4, 4)


@pytest.mark.parametrize("make", [mask.lengths, mask.prefix])
def test_lengths_of_another_shape_are_refused(make: Callable[[Tensor], mask.Mask]) -> None:
    with pytest.raises(ConfigError, match=r"one length per row, 2 in all; given a shape of \(2, 5\)"):
        asked(make(torch.ones(2, 5)), 4, 4)
    with pytest.raises(ConfigError, match=r"one number instead of lengths for a batch of 2"):
        asked(make(torch.tensor(3)), 4, 4)


def test_documents_must_number_every_row_and_position() -> None:
    five = mask.documents(torch.zeros(2, 5))
    with pytest.raises(ConfigError, match=r"a document number per row and position|given the shape \(5,\)"):
        mask.documents(torch.zeros(5))
    with pytest.raises(ConfigError, match=r"mask\.documents was given 3 rows for a batch of 2"):
        asked(mask.documents(torch.zeros(3, 5)), 4, 4)
    with pytest.raises(ConfigError, match=r"numbers 5 positions, but there are 6 keys"):
        asked(five, 4, 6)
    with pytest.raises(ConfigError, match=r"numbers 5 positions, but .* the last query stands at position 5"):
        asked(five, 4, 5, 2)
    with pytest.raises(ConfigError, match=r"numbers 5 positions, but .* the last query stands at position 5"):
        asked(five & mask.CAUSAL, 4, 5, [0, 2])
    assert table(asked(five, 4, 5, [0, 1])).all()


def test_a_boolean_tensor_is_not_taken_for_a_mask() -> None:
    x = torch.zeros(1, 1, 2, 2)
    tensor: Any = torch.ones(2, 2, dtype=torch.bool)
    with pytest.raises(ConfigError, match=r"mask is a Tensor; compose one of mask\.CAUSAL"):
        attend(x, x, x, mask=tensor)
