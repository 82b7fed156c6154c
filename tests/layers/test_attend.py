"""attend(): the promises of its contract, and the same as torch's own attention. Its product of scores, masks, positions and head
sharings is in test_attend_product.py."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from attention_cases import POSITIONS, SCORES, SHAPES, SHARINGS, Case, rules, saying
from hypothesis import given
from hypothesis import strategies as st
from shares import half
from small_models import randomise
from tolerance import assert_equal
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.attention import attend, chunked, mask, position, score, sdpa
from firth.layers.attention.call import Call
from firth.layers.attention.config import AttentionConfig
from firth.layers.attention.weights import weights
from firth.layers.block_config import BlockConfig
from firth.layers.self_attention import SelfAttention
from firth.oracles import attention as oracle

KERNELS: tuple[Any, ...] = ("reference", "sdpa", "chunked", "auto")
B, H, D, E = 3, 4, 6, 5


def qkv(Q: int, K: int, G: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((B, H, Q, D), (B, G, K, D), (B, G, K, E))
    q, k, v = (torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes)
    return q, k, v


@pytest.fixture(scope="module", autouse=True)
def _several_chunks() -> Any:
    """So that "chunked" has something to put together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunked, "ELEMENTS", 128)
        yield


def test_the_scale_can_be_given() -> None:
    q, k, v = qkv(4, 4, 4)
    truth = oracle.attend(q.numpy(), k.numpy(), v.numpy(), scale=0.3)
    for kernel in KERNELS:
        assert_equal(attend(q, k, v, scale=0.3, kernel=kernel), torch.from_numpy(truth))


@pytest.mark.parametrize("kernel", KERNELS)
def test_scores_beyond_the_range_of_exp_are_no_trouble(kernel: Any) -> None:
    q, k, v = qkv(4, 4, 4)
    o = attend(1e3 * q, 1e3 * k, v, mask=mask.CAUSAL, kernel=kernel)
    truth = oracle.attend(1e3 * q.numpy(), 1e3 * k.numpy(), v.numpy(), lambda b, h, q, k: k <= q)
    assert_equal(o, torch.from_numpy(truth))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_query_head_reads_the_key_value_head_of_its_consecutive_group(kernel: Any) -> None:
    q, k, _ = qkv(2, 3, 2)
    v = torch.tensor([10.0, 20.0], dtype=torch.float64).view(1, 2, 1, 1).expand(B, 2, 3, 1)
    o = attend(q, k, v, kernel=kernel)
    assert_equal(o[0, :, 0, 0], torch.tensor([10.0, 10.0, 20.0, 20.0], dtype=torch.float64))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_query_with_no_allowed_key_gives_zero_and_takes_no_gradient(kernel: Any) -> None:
    q, k, v = (t.requires_grad_() for t in qkv(4, 6, 2))
    o = attend(q, k, v, mask=mask.lengths(torch.tensor([0, 3, 0])), kernel=kernel)
    assert not o[0].any()
    assert not o[2].any()
    assert o[1].all()
    for grad in torch.autograd.grad(o.sum() + (o**2).sum(), (q, k, v)):
        assert not grad[0].any()
        assert not grad[2].any()
        assert grad.isfinite().all()
        assert grad[1].any()


@pytest.mark.parametrize("kernel", KERNELS)
def test_only_the_empty_rows_are_zero_when_others_in_the_same_sequence_are_not(kernel: Any) -> None:
    """A query at position 5 with a window of 2 and only 3 real keys sees nothing; the one at 3 still sees key 2."""
    q, k, v = (t.requires_grad_() for t in qkv(6, 6, 2))
    o = attend(q, k, v, mask=mask.window(2) & mask.lengths(torch.tensor([3, 3, 3])), kernel=kernel)
    assert o[:, :, :4].abs().amin() > 0
    assert not o[:, :, 4:].any()
    dq, *_ = torch.autograd.grad(o.sum(), (q, k, v))
    assert not dq[:, :, 4:].any()


@pytest.mark.parametrize("rule", [mask.FULL, mask.CAUSAL, mask.window(2), mask.ALL_BUT_SELF])
@pytest.mark.parametrize("kernel", KERNELS)
def test_no_keys_at_all_give_zeros(kernel: Any, rule: mask.Mask) -> None:
    q, k, v = (t.requires_grad_() for t in qkv(2, 0, 2))
    o = attend(q, k, v, mask=rule, kernel=kernel)
    assert o.shape == (B, H, 2, E)
    assert not o.any()
    assert not torch.autograd.grad(o.sum(), q)[0].any()


cases = st.builds(
    Case,
    score=st.sampled_from(sorted(SCORES)),
    position=st.sampled_from(sorted(POSITIONS)),
    G=st.sampled_from(SHARINGS),
    shape=st.sampled_from(sorted(SHAPES)),
)
kernels = st.sampled_from(("reference", "chunked", "auto"))  # auto is sdpa wherever that can run
seeds = st.integers(0, 1000)
CAUSAL_RULES = ("causal", "strictly causal", "window", "causal & lengths", "causal, by head")


@given(case=cases, kernel=kernels, rule=st.sampled_from(CAUSAL_RULES), t=st.integers(0, 4), seed=seeds)
def test_what_comes_later_changes_nothing_before(case: Case, kernel: Any, rule: str, t: int, seed: int) -> None:
    before, after = case.tensors(seed=seed), case.tensors(seed=seed)
    for name in ("k", "v"):
        after[name][:, :, t + 1 :] = 1e3
    here = case.call(before, mask.FULL).position_BQ().expand(2, -1) <= t
    assert_equal(
        case.attend(after, rules()[rule].mask, kernel).transpose(1, 2)[here],
        case.attend(before, rules()[rule].mask, kernel).transpose(1, 2)[here],
    )


@given(
    case=cases,
    kernel=kernels,
    length=st.lists(st.integers(0, 5), min_size=2, max_size=2),
    rule=st.sampled_from(sorted(rules())),
    huge=st.sampled_from([1e3, -1e30]),
    seed=seeds,
)
def test_what_stands_in_the_padding_changes_nothing(
    case: Case, kernel: Any, length: list[int], rule: str, huge: float, seed: int
) -> None:
    before, after = case.tensors(seed=seed), case.tensors(seed=seed)
    for b, n in enumerate(length):
        after["k"][b, :, n:], after["v"][b, :, n:] = huge, -huge
    padded = rules()[rule].mask & mask.lengths(torch.tensor(length))
    assert_equal(case.attend(after, padded, kernel), case.attend(before, padded, kernel))


@given(case=cases, kernel=kernels, rule=st.sampled_from(sorted(rules())), row=st.integers(0, 1), seed=seeds)
def test_a_row_does_not_know_the_other_rows(case: Case, kernel: Any, rule: str, row: int, seed: int) -> None:
    before, after = case.tensors(seed=seed), case.tensors(seed=seed)
    for name, number in (("q", 5.0), ("k", -3.0), ("v", 1e3)):
        after[name][1 - row] = number
    o, truth = (case.attend(given_, rules()[rule].mask, kernel)[row] for given_ in (after, before))
    assert_equal(o, truth)


@given(case=cases, kernel=kernels, rule=st.sampled_from(sorted(rules())), seed=seeds)
def test_a_query_that_sees_nothing_gives_zero_and_takes_no_gradient(case: Case, kernel: Any, rule: str, seed: int) -> None:
    leaves = {name: tensor.requires_grad_() for name, tensor in case.tensors(seed=seed).items()}
    # Nothing in row 0, and in row 1 only what the rule leaves of the keys 3 and 4.
    chosen = rules()[rule].mask & mask.lengths(torch.tensor([0, 5])) & LateKeys()
    o = case.attend(leaves, chosen, kernel)
    sees = case.call(leaves, chosen).allowed_BHQK().any(-1).expand(o.shape[:3])
    assert not sees[0].any()
    assert not o[~sees].any()
    dq, dk, dv = torch.autograd.grad((o * o).sum() + o.sum(), [leaves[name] for name in "qkv"])
    assert not dq[~sees].any()
    for grad in (dk, dv):
        assert not grad[0].any()
        assert not grad[:, :, :3].any()
    assert all(grad.isfinite().all() for grad in (dq, dk, dv))
    assert dv[1].any() == sees[1].any()


class LateKeys(mask.Mask):
    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return k >= 3


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_constant_value_comes_back_because_weights_sum_to_one(kernel: Any) -> None:
    q, k, v = qkv(6, 6, 2)
    assert_equal(attend(q, k, torch.ones_like(v), mask=mask.window(3), kernel=kernel), torch.ones(B, H, 6, E).double())


@pytest.mark.parametrize("kernel", KERNELS)
def test_as_many_queries_as_keys_are_no_triangle_where_they_start_later(kernel: Any) -> None:
    """torch's is_causal would align it top-left: query 2 + t sees 3 + t keys, not 1 + t."""
    q, k, v = qkv(4, 4, 2)
    truth = oracle.attend(q.numpy(), k.numpy(), v.numpy(), lambda b, h, q, k: k <= q, q_start=2)
    assert_equal(attend(q, k, v, mask=mask.CAUSAL, q_start=2, kernel=kernel), torch.from_numpy(truth))


@pytest.mark.parametrize("rule", [mask.CAUSAL, mask.window(3), mask.STRICTLY_CAUSAL, mask.ALL_BUT_SELF & mask.CAUSAL])
def test_queries_one_by_one_with_their_start_equal_all_at_once(rule: mask.Mask) -> None:
    q, k, v = qkv(6, 6, 2)
    whole = attend(q, k, v, mask=rule, kernel="reference")
    for kernel, (start, stop) in itertools.product(KERNELS, [(0, 1), (2, 3), (5, 6), (1, 4), (3, 6)]):
        part = attend(q[:, :, start:stop], k[:, :, :stop], v[:, :, :stop], mask=rule, q_start=start, kernel=kernel)
        assert_equal(part, whole[:, :, start:stop])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_self_attention_equals_torchs_multi_head_attention(causal: bool, bias: bool) -> None:
    layer, module = (
        SelfAttention(BlockConfig(width=12, attention=AttentionConfig(heads=4), bias=bias)).double(),
        nn.MultiheadAttention(12, 4, bias=bias, batch_first=True).double(),
    )
    generator = torch.Generator().manual_seed(0)
    randomise(layer, seed=generator)
    with torch.no_grad():
        names = [("qkv.weight", "in_proj_weight"), ("out.weight", "out_proj.weight")]
        names += [("qkv.bias", "in_proj_bias"), ("out.bias", "out_proj.bias")] if bias else []
        module.load_state_dict({theirs: layer.state_dict()[mine] for mine, theirs in names})
    x = torch.randn(2, 5, 12, generator=generator, dtype=torch.float64, requires_grad=True)
    forbidden = torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None
    truth, _ = module(x, x, x, attn_mask=forbidden, need_weights=False)
    y, state = layer(x, mask.CAUSAL if causal else mask.FULL, None, None)
    assert state is None
    assert_equal(y.detach(), truth.detach())
    truths = torch.autograd.grad((truth**2).sum(), [x, *(module.get_parameter(theirs) for _, theirs in names)])
    grads = torch.autograd.grad((y**2).sum(), [x, *(layer.get_parameter(mine) for mine, _ in names)])
    for mine, theirs in zip(grads, truths, strict=True):
        assert_equal(mine, theirs)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("padded", [False, True])
def test_cross_attention_equals_torchs_multi_head_attention(padded: bool, kernel: Any) -> None:
    """Queries and keys of different lengths and widths; the padding is torch's key_padding_mask, which is True where firth's
    mask is False."""
    module = nn.MultiheadAttention(12, H, kdim=7, vdim=9, bias=False, batch_first=True).double()
    generator = torch.Generator().manual_seed(0)
    randomise(module, seed=generator)
    x, keys, values = (torch.randn(*shape, generator=generator).double() for shape in ((3, 4, 12), (3, 6, 7), (3, 6, 9)))
    length_B = torch.tensor([2, 6, 1])
    padding = torch.arange(6) >= length_B.unsqueeze(-1)
    truth, p = module(x, keys, values, key_padding_mask=padding if padded else None, average_attn_weights=False)
    q, k, v = (
        (given_ @ W.T).unflatten(-1, (H, 3)).transpose(1, 2)
        for given_, W in ((x, module.q_proj_weight), (keys, module.k_proj_weight), (values, module.v_proj_weight))
    )
    rule = mask.lengths(length_B) if padded else mask.FULL
    y = attend(q, k, v, mask=rule, kernel=kernel).transpose(1, 2).flatten(2) @ module.out_proj.weight.T
    assert_equal(y.detach(), truth.detach())
    assert_equal(weights(Call(q, k, v, 3**-0.5, mask=rule)), p.detach())


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("G", [1, 2, 4])
def test_attention_equals_torchs_scaled_dot_product_attention(G: int, kernel: Any) -> None:
    q, k, v = qkv(6, 6, G)
    rule = torch.ones(6, 6).tril().bool() & (torch.arange(6) < torch.tensor([[4], [1], [6]]))[:, None, None]
    repeated = [x.repeat_interleave(H // G, 1) for x in (k, v)]
    truth = F.scaled_dot_product_attention(q, *repeated, attn_mask=rule, scale=0.7)
    chosen = mask.CAUSAL & mask.lengths(torch.tensor([4, 1, 6]))
    assert_equal(attend(q, k, v, mask=chosen, scale=0.7, kernel=kernel), truth)
    truth = F.scaled_dot_product_attention(q, *repeated, is_causal=True)
    assert_equal(attend(q, k, v, mask=mask.CAUSAL, kernel=kernel), truth)


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_grouped_queries_equal_full_heads_whose_keys_and_values_are_repeated(kv_heads: int) -> None:
    generator = torch.Generator().manual_seed(0)
    grouped, full = (
        SelfAttention(BlockConfig(width=12, attention=AttentionConfig(heads=4, kv_heads=kv_heads))).double(),
        SelfAttention(BlockConfig(width=12, attention=AttentionConfig(heads=4))).double(),
    )
    randomise(grouped, seed=generator)
    with torch.no_grad():
        q, k, v = grouped.qkv.weight.unflatten(0, (-1, 3)).split((4, kv_heads, kv_heads))
        full.qkv.weight.copy_(torch.cat((q, *(x.repeat_interleave(4 // kv_heads, 0) for x in (k, v)))).flatten(0, 1))
        full.out.weight.copy_(grouped.out.weight)
    x = torch.randn(2, 5, 12, generator=generator, dtype=torch.float64)
    assert_equal(grouped(x, mask.CAUSAL, None, None)[0].detach(), full(x, mask.CAUSAL, None, None)[0].detach())


# A NaN or an infinity in what is seen is never hidden.


def by_ieee(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    """softmax as IEEE 754 has it in float32, over the keys that are seen and no others: inf − inf and 0 · inf are NaN."""
    o = torch.zeros(*q.shape[:3], v.shape[3])
    for b, h, t in np.ndindex(q.shape[:3]):
        seen = allowed[t].nonzero().flatten()
        s = (k[b, h, seen].float() * q[b, h, t].float()).sum(-1)
        power = (s - s.max()).exp()
        o[b, h, t] = ((power / power.sum()).unsqueeze(-1) * v[b, h, seen].float()).sum(0)
    return o


BAD = {
    "a NaN in a query": lambda q, k, v: q[0, 0, -1, 0].fill_(math.nan),
    "an infinity in a query": lambda q, k, v: q[0, 0, -1, 0].fill_(math.inf),
    "a NaN in a key": lambda q, k, v: k[0, 0, 2, 1].fill_(math.nan),
    "an infinity in a key": lambda q, k, v: (q[0, 0].abs_(), k[0, 0, 2, 1].fill_(math.inf)),
    "a NaN in every key": lambda q, k, v: k[0, 0, :, 0].fill_(math.nan),
    "scores that are all −inf": lambda q, k, v: (q[0, 0].abs_(), k[0, 0, :, 0].fill_(-math.inf)),
    "finite numbers whose scores are all −inf": lambda q, k, v: (q[0, 0].fill_(3e38), k[0, 0].fill_(-3e38)),
    "a NaN in a value": lambda q, k, v: v[0, 0, 2, 0].fill_(math.nan),
    "an infinity in a value": lambda q, k, v: v[0, 0, 2, 0].fill_(math.inf),
}


@pytest.mark.parametrize("bad", half(BAD))
@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_not_finite_is_never_hidden(kernel: Any, bad: str) -> None:
    wrong = 0
    rules_ = (mask.FULL, mask.CAUSAL, mask.window(2), mask.lengths(torch.tensor([3, 3])))
    for Q, rule, dtype in itertools.product((4, 2, 1), rules_, (torch.float32, torch.bfloat16)):
        q, k, v = (tensor[:2, :2, :, :4] for tensor in qkv(4, 4, 4, dtype=dtype))
        q = q[:, :, :Q]
        BAD[bad](q, k, v)
        allowed = Call(q, k, v, 1.0, mask=rule, q_start=4 - Q).allowed_BHQK().expand(2, 1, Q, 4)[0, 0]
        truth = by_ieee(q, k, v, allowed)
        o = attend(q, k, v, scale=1.0, mask=rule, q_start=4 - Q, kernel=kernel)
        with saying(Q, rule, dtype):
            assert not (o.isfinite() & ~truth.isfinite()).any()
            assert o[1].isfinite().all(), "and it stays in its row"
        wrong += int((~truth.isfinite()).sum())
    assert wrong, "there was something to hide"


def test_an_infinity_that_is_not_seen_is_not_there() -> None:
    """By the definition. (torch's kernels add −inf to a score of +inf, and show a NaN: too much, never too little.)"""
    q, k, v = qkv(4, 4, 4)
    truth = attend(q[:, :, :3], k[:, :, :3], v[:, :, :3], mask=mask.CAUSAL, kernel="reference")
    k[:, :, 3] = math.inf
    for kernel in ("reference", "chunked"):
        o = attend(q, k, v, mask=mask.CAUSAL, kernel=kernel)
        assert_equal(o[:, :, :3], truth)
        assert o[:, :, 3].isnan().all()


# Refusals: what was given, what was expected.


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


@pytest.mark.parametrize(
    ("q", "k", "v", "words"),
    [
        (zeros(1, 4, 2, 8), zeros(1, 3, 2, 8), zeros(1, 3, 2, 8), r"3 key/value heads do not divide 4 query heads"),
        (zeros(4, 2, 8), zeros(1, 4, 2, 8), zeros(1, 4, 2, 8), r"four axes.*\(4, 2, 8\)"),
        (zeros(2, 4, 2, 8), zeros(1, 4, 2, 8), zeros(1, 4, 2, 8), r"same batch.*\(2, 4, 2, 8\).*\(1, 4, 2, 8\)"),
        (zeros(1, 4, 2, 8), zeros(1, 4, 2, 6), zeros(1, 4, 2, 8), r"width 8.*width 6.*bilinear"),
        (zeros(1, 4, 2, 8), zeros(1, 4, 2, 8), zeros(1, 4, 3, 8), r"same heads and length.*\(1, 4, 2, 8\).*\(1, 4, 3, 8\)"),
        (zeros(1, 4, 2, 8), zeros(1, 4, 2, 8), zeros(1, 2, 2, 8), r"same heads and length.*\(1, 4, 2, 8\).*\(1, 2, 2, 8\)"),
        (zeros(1, 1, 2, 8, dtype=torch.float64), zeros(1, 1, 2, 8), zeros(1, 1, 2, 8), r"one dtype.*float64.*float32"),
        (zeros(1, 1, 2, 8), zeros(1, 1, 2, 8).to("meta"), zeros(1, 1, 2, 8), r"one device; given q .* cpu, k .* meta, v .* cpu"),
        (zeros(1, 4, 2, 8), zeros(1, 0, 2, 8), zeros(1, 0, 2, 8), r"0 key/value heads do not divide 4 query heads"),
        (*(zeros(1, 1, 2, 8, dtype=torch.int64),) * 3, r"q, k and v are torch.int64; expected float32"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_with_both_numbers(q: Tensor, k: Tensor, v: Tensor, words: str) -> None:
    for kernel in KERNELS:
        with pytest.raises(ConfigError, match=words):
            attend(q, k, v, kernel=kernel)


def test_a_start_per_row_must_have_as_many_rows_as_the_batch() -> None:
    q, k, v = qkv(2, 4, 2)
    with pytest.raises(ConfigError, match=r"q_start has 2 starts for a batch of 3"):
        attend(q, k, v, mask=mask.CAUSAL, q_start=torch.tensor([0, 1]))
    with pytest.raises(ConfigError, match=r"q_start has the shape \(3, 4\); 2 queries of 3 rows need \(1, 2\) or \(3, 2\)"):
        attend(q, k, v, mask=mask.CAUSAL, q_start=torch.zeros(3, 4, dtype=torch.long))
    wrong: Any = [0, 1, 2]
    with pytest.raises(ConfigError, match=r"q_start is a list; give one int, or a tensor"):
        attend(q, k, v, mask=mask.CAUSAL, q_start=wrong)


def test_an_unknown_kernel_is_refused_by_name() -> None:
    q, k, v = qkv(2, 2, 2)
    unknown: Any = "flash9"
    names = "auto, sdpa, triton, few_queries, flex, chunked or reference"
    with pytest.raises(ConfigError, match=f'no kernel "flash9"; choose {names}'):
        attend(q, k, v, kernel=unknown)


def test_a_kernel_asked_for_by_name_gives_its_reason_instead_of_another_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdpa, "why_not", lambda call: "it rains")
    q, k, v = qkv(2, 2, 2)
    with pytest.raises(ConfigError, match=r'kernel "sdpa" cannot run this call: it rains; kernel="auto"'):
        attend(q, k, v, kernel="sdpa")
    assert torch.equal(attend(q, k, v), attend(q, k, v, kernel="reference"))


def test_the_oracle_of_one_key_returns_its_value() -> None:
    """The oracle's own sanity: one key has weight 1 whatever the score; no key gives zeros."""
    q, k, v = (np.full((1, 1, 1, 2), x) for x in (3.0, 5.0, 7.0))
    assert oracle.attend(q, k, v).tolist() == [[[[7.0, 7.0]]]]
    assert oracle.attend(q, k, v, lambda b, h, q, k: False).tolist() == [[[[0.0, 0.0]]]]


def test_a_start_before_the_text_and_a_score_by_name_are_refused() -> None:
    q, k, v = qkv(2, 2, 2)
    with pytest.raises(ConfigError, match="q_start is -1; positions count from 0"):
        attend(q, k, v, q_start=-1)
    named: Any = "dot"
    with pytest.raises(ConfigError, match=r"score is 'dot'; expected a Score"):
        attend(q, k, v, score=named)


def test_lengths_may_be_a_list() -> None:
    q, k, v = qkv(3, 3, 2)
    assert torch.equal(attend(q, k, v, mask=mask.lengths([1, 3, 2])), attend(q, k, v, mask=mask.lengths(torch.tensor([1, 3, 2]))))


@pytest.mark.parametrize("kernel", KERNELS)
def test_lengths_that_change_in_place_are_seen_by_the_next_call(kernel: Any) -> None:
    """Results computed from a mask are cached for the next layer, so a change of the mask must discard them."""
    q, k, v = qkv(4, 4, 2)
    length = torch.tensor([4, 2, 3])
    rule = mask.CAUSAL & mask.lengths(length)
    before = attend(q, k, v, mask=rule, kernel=kernel)
    length -= 1
    after = attend(q, k, v, mask=rule, kernel=kernel)
    assert not torch.equal(before, after)
    assert torch.equal(after, attend(q, k, v, mask=mask.CAUSAL & mask.lengths([3, 1, 2]), kernel=kernel))


def test_a_mask_first_used_while_generating_still_serves_training() -> None:
    """Made under inference_mode, a tensor cannot be kept for a backward pass: here the one of the learned table."""
    q, k, v = qkv(5, 5, 2)
    table = torch.zeros(4, H, dtype=torch.float64, requires_grad=True)
    where = position.buckets(table, bidirectional=False, max_distance=4)
    with torch.inference_mode():
        attend(q, k, v, mask=mask.window(4), position=where)
    attend(q, k, v, mask=mask.window(4), position=where).sum().backward()  # type: ignore[no-untyped-call]
    assert table.grad is not None


def test_norms_that_overflow_are_not_hidden_either() -> None:
    """−½‖k‖² of 3e19 is −inf in float32 for every key, though no q·k overflows."""
    q, k = torch.full((1, 1, 2, 4), 1e-3), torch.full((1, 1, 3, 4), 3e19)
    for kernel in KERNELS:
        assert attend(q, k, torch.ones(1, 1, 3, 4), score=score.GAUSSIAN, kernel=kernel).isnan().all()


def test_values_without_width_and_queries_without_number_give_nothing() -> None:
    q, k, v = qkv(3, 3, 2)
    for kernel in KERNELS:
        assert attend(q, k, v[..., :0], kernel=kernel).shape == (B, H, 3, 0)
        assert attend(q[:, :, :0], k, v, kernel=kernel).shape == (B, H, 0, E)
