"""Relative positions: the laws that make them relative, and the same as T5, BLOOM and Llama have them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attention_cases import POSITIONS, SCORES, Case, D, E, H, R, pull, saying
from hypothesis import given
from hypothesis import strategies as st
from tolerance import assert_equal
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention import attend, mask
from firth.layers.position import (
    ALiBi,
    BucketBias,
    Distances,
    Learned,
    Rotary,
    Sinusoidal,
    Slopes,
    alibi,
    buckets,
    disentangled,
    rotary,
    rotate,
    shaw,
)
from firth.layers.position.t5 import bucket
from firth.oracles import position as oracle

RELATIVE = [name for name in POSITIONS if name != "none"]


def some(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(shift=st.integers(1, 40), where=st.sampled_from(RELATIVE), score=st.sampled_from(sorted(SCORES)), seed=st.integers(0, 99))
def test_only_the_distance_counts(shift: int, where: str, score: str, seed: int) -> None:
    """Everything moved to the right by `shift`, behind keys of another document: nothing changes. For rotary, scores
    depend on t − s only, inside attend()."""
    if where == "rotary" and score in ("additive", "additive, W per head", "additive, one for all"):
        score = "gaussian"  # tanh of turned vectors knows where they stand; so rotary has no such law there
    case = Case(score, where, 2)
    here = case.tensors(seed=seed)
    there = dict(here)
    for name in ("k", "v"):
        junk = some(*here[name].shape[:2], shift, here[name].shape[3], seed=7)
        there[name] = torch.cat((junk, here[name]), dim=2)
    T = here["k"].shape[2]
    apart = mask.documents(torch.tensor([[0] * shift + [1] * T] * 2))
    for rule in (mask.FULL, mask.CAUSAL):
        before = case.attend(here, rule, "auto")
        call = case.call(here, rule)
        after = attend(
            there["q"], there["k"], there["v"], score=call.score, mask=rule & apart, position=call.position, q_start=shift
        )
        assert_equal(after, before, share=1e-11)  # angles up to 45 carry errors of 45 · 1e-16 into every product


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("where", RELATIVE)
def test_every_position_changes_the_result(where: str, score: str) -> None:
    case, nowhere = Case(score, where, 2), Case(score, "none", 2)
    given_ = case.tensors()
    off = (case.attend(given_, mask.FULL, "auto") - nowhere.attend(given_, mask.FULL, "auto")).abs()
    assert off.amax() > 1e-3


@pytest.mark.parametrize("where", ["none", "rotary", "alibi", "t5, both ways", "t5, one way", "shaw"])
@pytest.mark.parametrize("score", ["scaled dot", "gaussian", "bilinear"])
def test_packed_documents_equal_documents_read_alone(score: str, where: str) -> None:
    """In value and in gradient, causal and not: the packed row is one call, the documents are one call each."""
    case, ends = Case(score, where, 2), [(0, 2), (2, 5)]
    leaves = {name: tensor.requires_grad_() for name, tensor in case.tensors().items()}
    packed = mask.documents(torch.tensor([[1, 1, 2, 2, 2]] * 2))
    for rule in (mask.FULL, mask.CAUSAL):
        together = case.attend(leaves, packed & rule, "auto")
        alone = torch.cat([case.attend(cut(leaves, a, b), rule, "auto") for a, b in ends], dim=2)
        assert_equal(together.detach(), alone.detach())
        weight = pull(together)
        for grad, truth in zip(
            torch.autograd.grad((together * weight).sum(), list(leaves.values())),
            torch.autograd.grad((alone * weight).sum(), list(leaves.values())),
            strict=True,
        ):
            assert_equal(grad, truth)


def cut(leaves: dict[str, Any], a: int, b: int) -> dict[str, Any]:
    return {name: tensor[:, :, a:b] if name in "qkv" else tensor for name, tensor in leaves.items()}


# T5's buckets.

COUNTS = [(4, 16), (5, 7), (7, 50), (8, 20), (16, 100), (32, 128), (32, 20), (64, 128), (64, 512), (320, 800)]
DISTANCES = torch.arange(-600, 601)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize(("count", "reach"), COUNTS)
def test_buckets_equal_the_oracles(count: int, reach: int, both: bool) -> None:
    bucket_N = bucket(DISTANCES, count, both, reach)
    assert bucket_N.tolist() == [oracle.bucket(distance, count, both, reach) for distance in DISTANCES.tolist()]


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize(("count", "reach"), COUNTS)
def test_buckets_equal_those_of_hugging_faces_t5(count: int, reach: int, both: bool) -> None:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5", reason="the oracle is Hugging Face's; make setup installs it")
    theirs = t5.T5Attention._relative_position_bucket(DISTANCES, both, count, reach)
    assert torch.equal(bucket(DISTANCES, count, both, reach), theirs)


@pytest.mark.parametrize("both", [False, True])
def test_the_bias_equals_that_of_hugging_faces_t5(both: bool) -> None:
    transformers = pytest.importorskip("transformers", reason="the oracle is Hugging Face's; make setup installs it")
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5", reason="the oracle is Hugging Face's; make setup installs it")
    config = transformers.T5Config(
        d_model=16,
        d_kv=4,
        num_heads=4,
        relative_attention_num_buckets=10,
        relative_attention_max_distance=30,
        is_decoder=not both,
    )
    theirs = t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double()
    table = theirs.relative_attention_bias.weight.detach().normal_(generator=torch.Generator().manual_seed(0))
    mine = buckets(table, bidirectional=both, max_distance=30)
    with torch.no_grad():
        for start in (0, 3, 60):
            distance = torch.arange(70) - torch.arange(start, start + 7).unsqueeze(-1)
            assert_equal(mine.bias_BHQK(distance[None, None]), theirs.compute_bias(7, 70, past_seen_tokens=start))


@given(count=st.integers(4, 40), extra=st.integers(1, 200), both=st.booleans())
def test_the_table_by_distance_ends_where_the_last_bucket_begins(count: int, extra: int, both: bool) -> None:
    reach = count // (4 if both else 2) + extra
    mine = BucketBias(torch.arange(count, dtype=torch.float64).unsqueeze(-1), both, reach)
    assert mine.left <= reach
    assert mine.right == (mine.left if both else 0)
    distance = torch.arange(-2 * reach, 2 * reach + 1)
    assert torch.equal(mine.bias_BHQK(distance.view(1, 1, 1, -1)).flatten(), bucket(distance, count, both, reach).double())
    table = mine.table_HR()
    assert table.shape == (1, mine.left + mine.right + 1)
    assert table[0, 0] != table[0, 1], "the end of the table is the first distance of the last bucket"


# ALiBi's slopes.


@pytest.mark.parametrize("heads", [*range(1, 17), 20, 24, 32])
def test_slopes_equal_the_oracles(heads: int) -> None:
    assert_equal(alibi(heads).slope_H.double(), torch.tensor(oracle.slopes(heads)).double(), share=1e-7)  # kept in float32
    assert torch.equal(Slopes(heads).slope_H, alibi(heads).slope_H)


def test_slopes_of_eight_heads_are_those_of_the_paper() -> None:
    assert alibi(8).slope_H.tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]


@pytest.mark.parametrize("heads", [*range(1, 17), 20])
def test_alibi_equals_that_of_hugging_faces_bloom(heads: int) -> None:
    """BLOOM adds m·k and leaves −m·q to the softmax, which does not see it; under a causal mask both are the same."""
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom", reason="the oracle is Hugging Face's")
    T = 6
    theirs = bloom.build_alibi_tensor(torch.ones(1, T, dtype=torch.long), heads, torch.float32).view(heads, 1, T)
    slope_H = theirs[:, 0, 1]
    # Theirs is a float32 raised to powers up to H: H times the error of the base, a rounding each for the power and for mine.
    torch.testing.assert_close(alibi(heads).slope_H, slope_H, rtol=(heads + 2) * 2**-24, atol=0.0)
    q, k, v = some(1, heads, T, 4), some(1, heads, T, 4, seed=1), some(1, heads, T, 4, seed=2)
    causal = torch.zeros(T, T, dtype=torch.float64).masked_fill(torch.ones(T, T).triu(1).bool(), -math.inf)
    bias = slope_H.double().view(1, heads, 1, 1) * torch.arange(T)
    truth = F.scaled_dot_product_attention(q, k, v, attn_mask=bias + causal)
    assert_equal(attend(q, k, v, mask=mask.CAUSAL, position=ALiBi(slope_H.double())), truth)


# Rotary.


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_rotary_equals_that_of_hugging_faces_llama(base: float) -> None:
    llama = pytest.importorskip("transformers.models.llama.modeling_llama", reason="the oracle is Hugging Face's")
    T, width = 7, 8
    q, k, v = some(2, 4, T, width), some(2, 2, T, width, seed=1), some(2, 2, T, 5, seed=2)
    frequency = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(T, dtype=torch.float64).unsqueeze(-1) * frequency
    both = torch.cat((angle, angle), -1).unsqueeze(0)
    q_turned, k_turned = llama.apply_rotary_pos_emb(q, k, both.cos(), both.sin())
    truth = F.scaled_dot_product_attention(q_turned, k_turned, v, is_causal=True, enable_gqa=True)
    assert_equal(attend(q, k, v, mask=mask.CAUSAL, position=rotary(base)), truth)


def test_the_rotation_in_attend_is_the_one_of_the_models() -> None:
    """A model turns q and k before it stores them, attend() turns them itself: the same."""
    q, k, v = (some(2, 2, 6, 4, seed=n) for n in range(3))
    turn = Rotary(8, 4, 10_000.0).turn(0, 6)  # in float32
    o = attend(q, k, v, position=rotary())
    assert_equal(o, attend(rotate(q, turn), rotate(k, turn), v), share=1e-6)  # the table's rounding, some 6e-8, in a few sums


# Refusals: what was given, what was expected.


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (alibi(3), r"position\.alibi has 3 slopes for 4 query heads"),
        (buckets(torch.zeros(8, 3), bidirectional=True), r"position\.buckets has 3 columns for 4 query heads"),
        (shaw(torch.zeros(R, D + 1)), r"position\.shaw's key table is 5 wide; the keys are 4 wide"),
        (shaw(None, torch.zeros(R, E + 1)), r"position\.shaw's value table is 4 wide; the values are 3 wide"),
        (
            disentangled(torch.zeros(3, 4, D), None),
            r"position\.disentangled has 3 heads of width 4; the queries have 4 of width 4",
        ),
        (Learned(9, D), r"takes position\.rotary, shaw, buckets, alibi or disent.*; given Learned.*added to the embedding"),
        (
            Sinusoidal(9, D),
            r"takes position\.rotary, shaw, buckets, alibi or dis.*; given Sinusoidal.*added to the embedding",
        ),
        (ALiBi(torch.zeros(H, device="meta")), r"slope_H of ALiBi is on meta, q, k and v are on cpu"),
        (shaw(torch.zeros(R, D, device="meta")), r"key_RD of Shaw is on meta, q, k and v are on cpu"),
        (
            buckets(torch.zeros(8, H, device="meta"), bidirectional=True),
            r"table_NH of BucketBias is on meta, q, k and v are on cpu",
        ),
    ],
)
@pytest.mark.parametrize("kernel", ["auto", "reference"])
def test_positions_that_do_not_fit_are_refused_with_both_numbers(where: Any, words: str, kernel: Any) -> None:
    q, k, v = some(1, H, 2, D), some(1, 2, 3, D), some(1, 2, 3, E)
    with pytest.raises(ConfigError, match=words):
        attend(q, k, v, position=where, kernel=kernel)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: shaw(torch.zeros(4, 2)), r"tables have 4 rows; expected 2·max_distance \+ 1"),
        (lambda: shaw(torch.zeros(5, 2), torch.zeros(3, 2)), r"tables have 5 and 3 rows; expected 2·max_distance \+ 1, the same"),
        (lambda: shaw(None), r"tables have no rows"),
        (lambda: shaw(torch.zeros(5)), r"distances × width; given a shape of \(5,\)"),
        (
            lambda: buckets(torch.zeros(3, 2), bidirectional=True),
            r"3 buckets up to a distance of 128 cannot widen; .* at least 4 buckets",
        ),
        (
            lambda: buckets(torch.zeros(1, 2), bidirectional=False),
            r"1 buckets up to a distance of 128 cannot widen; .* at least 2 buckets",
        ),
        (
            lambda: buckets(torch.zeros(32, 2), bidirectional=False, max_distance=16),
            r"32 buckets up to a distance of 16 .* max_distance above 16",
        ),
        (
            lambda: buckets(torch.zeros(32, 2), bidirectional=True, max_distance=8),
            r"32 buckets up to a distance of 8 .* max_distance above 8",
        ),
        (lambda: buckets(torch.zeros(8), bidirectional=True), r"buckets × heads; given a shape of \(8,\)"),
        (lambda: Distances(3, 2, True, 128), r"3 buckets up to a distance of 128 cannot widen"),
        (lambda: alibi(0), r"position\.alibi was given 0 heads; expected at least 1"),
        (lambda: attend(some(1, 1, 2, 3), some(1, 1, 2, 3), some(1, 1, 2, 3), position=rotary()), r"even width; given 3"),
    ],
)
def test_tables_that_make_no_sense_are_refused(make: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()


def test_the_smallest_tables_that_make_sense_are_taken() -> None:
    x = some(1, H, 5, D)
    for where in (
        buckets(torch.ones(2, H), bidirectional=False, max_distance=2),
        buckets(torch.ones(4, H), bidirectional=True, max_distance=2),
        shaw(some(1, D)),
    ):
        with saying(type(where).__name__):
            assert attend(x, x, x, position=where).isfinite().all()
