"""attend(): the reference against float64 loops, every kernel against the reference, and the promises of the contract."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tolerance import assert_as_accurate, assert_equal
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.layers.attention import attend, mask, reference
from firth.layers.attention.call import Call
from firth.layers.heads import SelfAttention
from firth.oracles import attention as oracle

KERNELS: tuple[Any, ...] = ("reference", "sdpa", "auto")
B, H, D, E = 3, 4, 6, 5
LENGTHS = [4, 1, 6]


class Rule(NamedTuple):
    """A mask of firth's, and the same said in plain Python."""

    mask: mask.Mask
    allowed: Callable[[int, int, int, int], bool]


class OddHeadsSeeTheirOwnPosition(mask.Mask):
    """A mask that depends on the head, as a user might write it."""

    def allowed(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (h % 2 == 0) | (q == k)


def rules() -> dict[str, Rule]:
    padded = mask.lengths(torch.tensor(LENGTHS))
    return {
        "full": Rule(mask.FULL, lambda b, h, q, k: True),
        "causal": Rule(mask.CAUSAL, lambda b, h, q, k: k <= q),
        "window": Rule(mask.window(3), lambda b, h, q, k: q - 3 < k <= q),
        "lengths": Rule(padded, lambda b, h, q, k: k < LENGTHS[b]),
        "causal&lengths": Rule(mask.CAUSAL & padded, lambda b, h, q, k: k <= q and k < LENGTHS[b]),
        "window|lengths": Rule(mask.window(2) | padded, lambda b, h, q, k: q - 2 < k <= q or k < LENGTHS[b]),
        "window&lengths": Rule(mask.window(2) & padded, lambda b, h, q, k: q - 2 < k <= q and k < LENGTHS[b]),
        "by head": Rule(mask.CAUSAL & OddHeadsSeeTheirOwnPosition(), lambda b, h, q, k: k <= q and (h % 2 == 0 or q == k)),
    }


SHAPES = {"Q=K": (6, 6), "Q<K": (3, 6), "Q=1": (1, 6)}
STARTS: dict[str, Any] = {"0": 0, "last": "last", "per row": torch.tensor([0, 3, 5])}


def start_of(name: str, Q: int, K: int) -> Any:
    """`last` is where a cached step stands: its last query at the last key."""
    return K - Q if name == "last" else STARTS[name]


def qkv(Q: int, K: int, G: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((B, H, Q, D), (B, G, K, D), (B, G, K, E))
    q, k, v = (torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes)
    return q, k, v


def with_gradients(kernel: Any, tensors: tuple[Tensor, ...], rule: mask.Mask, q_start: Any) -> list[Tensor]:
    """The output and the gradients of q, k and v, for a loss that every output moves differently."""
    leaves = [t.clone().requires_grad_() for t in tensors]
    o = attend(*leaves, mask=rule, q_start=q_start, kernel=kernel)
    pull = torch.randn(o.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64).to(o.dtype)
    return [o.detach(), *torch.autograd.grad((o * pull).sum(), leaves)]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("G", [1, 2, 4])
@pytest.mark.parametrize("rule", rules())
def test_the_reference_equals_the_loops_of_the_oracle(rule: str, G: int, shape: str, start: str) -> None:
    (Q, K), (allowed_mask, allowed) = SHAPES[shape], rules()[rule]
    q, k, v = qkv(Q, K, G)
    q_start = start_of(start, Q, K)
    plain_start = q_start.tolist() if isinstance(q_start, Tensor) else q_start
    p = reference.weights(Call(q, k, v, allowed_mask, 1 / math.sqrt(D), q_start))
    truth = oracle.weights(q.numpy(), k.numpy(), allowed, q_start=plain_start)
    assert_equal(p, torch.from_numpy(truth))
    o = attend(q, k, v, mask=allowed_mask, q_start=q_start, kernel="reference")
    assert_equal(o, torch.from_numpy(oracle.attend(q.numpy(), k.numpy(), v.numpy(), allowed, q_start=plain_start)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("G", [1, 2, 4])
@pytest.mark.parametrize("rule", rules())
def test_sdpa_equals_the_reference_in_value_and_gradient(rule: str, G: int, shape: str) -> None:
    Q, K = SHAPES[shape]
    for start in STARTS:
        q_start, allowed = start_of(start, Q, K), rules()[rule].mask
        exact = with_gradients("reference", qkv(Q, K, G), allowed, q_start)
        for found, truth in zip(with_gradients("sdpa", qkv(Q, K, G), allowed, q_start), exact, strict=True):
            assert_equal(found, truth)
        single = qkv(Q, K, G, dtype=torch.float32)
        again = tuple(t.double() for t in single)
        exact = with_gradients("reference", again, allowed, q_start)
        plain = with_gradients("reference", single, allowed, q_start)
        for given_, plain_, exact_ in zip(with_gradients("sdpa", single, allowed, q_start), plain, exact, strict=True):
            assert_as_accurate(given_, plain_, exact_)


@pytest.mark.parametrize("rule", rules())
def test_sdpa_in_bfloat16_is_as_accurate_as_the_reference(rule: str) -> None:
    low = qkv(6, 6, 2, dtype=torch.bfloat16)
    exact = with_gradients("reference", tuple(t.double() for t in low), rules()[rule].mask, 0)
    plain = with_gradients("reference", low, rules()[rule].mask, 0)
    for given_, plain_, exact_ in zip(with_gradients("sdpa", low, rules()[rule].mask, 0), plain, exact, strict=True):
        assert_as_accurate(given_, plain_, exact_)


@pytest.mark.parametrize("kernel", KERNELS)
def test_scores_112_and_96_over_8_weigh_088_and_012(kernel: Any) -> None:
    """S15. √d_k = 8 is d_k = 64: q = 1s, keys that sum to 112 and 96, values that show the weights."""
    q = torch.ones(1, 1, 1, 64, dtype=torch.float64)
    k = torch.stack((torch.full((64,), 112 / 64), torch.full((64,), 96 / 64))).double().view(1, 1, 2, 64)
    v = torch.eye(2, dtype=torch.float64).view(1, 1, 2, 2)
    o = attend(q, k, v, kernel=kernel).flatten()
    assert [round(share, 2) for share in o.tolist()] == [0.88, 0.12]
    assert_equal(o, torch.tensor([1 / (1 + math.exp(-2)), 1 / (1 + math.exp(2))], dtype=torch.float64))


def test_the_scale_can_be_given() -> None:
    q, k, v = qkv(4, 4, 4)
    truth = oracle.attend(q.numpy(), k.numpy(), v.numpy(), scale=0.3)
    for kernel in KERNELS:
        assert_equal(attend(q, k, v, scale=0.3, kernel=kernel), torch.from_numpy(truth))


@pytest.mark.parametrize("kernel", KERNELS)
def test_scores_beyond_the_range_of_exp_are_no_trouble(kernel: Any) -> None:
    q, k, v = qkv(4, 4, 4)
    o = attend(1e3 * q, 1e3 * k, v, mask=mask.CAUSAL, kernel=kernel)
    assert_equal(o, torch.from_numpy(oracle.attend(1e3 * q.numpy(), 1e3 * k.numpy(), v.numpy(), rules()["causal"].allowed)))


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


@pytest.mark.parametrize("rule", ["full", "causal", "window"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_no_keys_at_all_give_zeros(kernel: Any, rule: str) -> None:
    q, k, v = (t.requires_grad_() for t in qkv(2, 0, 2))
    o = attend(q, k, v, mask=rules()[rule].mask, kernel=kernel)
    assert o.shape == (B, H, 2, E)
    assert not o.any()
    assert not torch.autograd.grad(o.sum(), q)[0].any()


@given(
    kernel=st.sampled_from(KERNELS),
    rule=st.sampled_from([mask.CAUSAL, mask.window(1), mask.window(3), mask.CAUSAL & mask.window(2)]),
    t=st.integers(0, 5),
    seed=st.integers(0, 1000),
)
def test_what_comes_later_changes_nothing_before(kernel: Any, rule: mask.Mask, t: int, seed: int) -> None:
    q, k, v = qkv(6, 6, 2, seed)
    before = attend(q, k, v, mask=rule, kernel=kernel)[:, :, : t + 1]
    for tensor in (q, k, v):
        tensor[:, :, t + 1 :] = 1e3
    assert_equal(attend(q, k, v, mask=rule, kernel=kernel)[:, :, : t + 1], before)


@given(
    kernel=st.sampled_from(KERNELS),
    length=st.lists(st.integers(0, 6), min_size=B, max_size=B),
    causal=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_what_stands_in_the_padding_changes_nothing(kernel: Any, length: list[int], causal: bool, seed: int) -> None:
    q, k, v = qkv(6, 6, 2, seed)
    rule = mask.lengths(torch.tensor(length))
    rule = rule & mask.CAUSAL if causal else rule
    before = attend(q, k, v, mask=rule, kernel=kernel)
    for b, n in enumerate(length):
        k[b, :, n:] = 1e3
        v[b, :, n:] = -1e3
    assert_equal(attend(q, k, v, mask=rule, kernel=kernel), before)


@given(
    kernel=st.sampled_from(KERNELS),
    rule=st.sampled_from(sorted(set(rules()) - {"by head"})),
    row=st.integers(0, B - 1),
    seed=st.integers(0, 1000),
)
def test_a_row_does_not_know_the_other_rows(kernel: Any, rule: str, row: int, seed: int) -> None:
    q, k, v = qkv(4, 6, 2, seed)
    before = attend(q, k, v, mask=rules()[rule].mask, q_start=torch.tensor([0, 1, 2]), kernel=kernel)[row]
    for other in set(range(B)) - {row}:
        q[other], k[other], v[other] = 5.0, -3.0, 1e3
    assert_equal(attend(q, k, v, mask=rules()[rule].mask, q_start=torch.tensor([0, 1, 2]), kernel=kernel)[row], before)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_constant_value_comes_back_because_weights_sum_to_one(kernel: Any) -> None:
    q, k, v = qkv(6, 6, 2)
    assert_equal(attend(q, k, torch.ones_like(v), mask=mask.window(3), kernel=kernel), torch.ones(B, H, 6, E).double())


@pytest.mark.parametrize("span", [1, 2, 3, 10])
def test_a_window_holds_at_most_span_keys_self_included(span: int) -> None:
    q, k, v = qkv(6, 6, 2)
    allowed_QK = Call(q, k, v, mask.window(span), 1.0, 0).allowed_BHQK()[0, 0]
    assert allowed_QK.sum(-1).tolist() == [min(span, t + 1) for t in range(6)]
    assert allowed_QK.diagonal().all()
    if span == 1:
        assert torch.equal(allowed_QK, torch.eye(6, dtype=torch.bool))


def test_masks_compose_as_sets() -> None:
    q, k, v = qkv(6, 6, 2)

    def table(m: mask.Mask) -> Tensor:
        return Call(q, k, v, m, 1.0, 0).allowed_BHQK().expand(B, H, 6, 6)

    one, two = mask.window(3), mask.lengths(torch.tensor(LENGTHS))
    assert torch.equal(table(one & two), table(one) & table(two))
    assert torch.equal(table(one | two), table(one) | table(two))
    assert torch.equal(table(mask.CAUSAL & mask.FULL), table(mask.CAUSAL))
    assert table(mask.CAUSAL | mask.FULL).all()


@pytest.mark.parametrize("rule", [mask.CAUSAL, mask.window(3)])
def test_queries_one_by_one_with_their_start_equal_all_at_once(rule: mask.Mask) -> None:
    q, k, v = qkv(6, 6, 2)
    whole = attend(q, k, v, mask=rule, kernel="reference")
    for kernel, (start, stop) in itertools.product(KERNELS, [(0, 1), (2, 3), (5, 6), (1, 4), (3, 6)]):
        part = attend(q[:, :, start:stop], k[:, :, :stop], v[:, :, :stop], mask=rule, q_start=start, kernel=kernel)
        assert_equal(part, whole[:, :, start:stop])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_self_attention_equals_torchs_multi_head_attention(causal: bool, bias: bool) -> None:
    layer, module = SelfAttention(12, 4, 4, bias).double(), nn.MultiheadAttention(12, 4, bias=bias, batch_first=True).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
        names = [("qkv.weight", "in_proj_weight"), ("out.weight", "out_proj.weight")]
        names += [("qkv.bias", "in_proj_bias"), ("out.bias", "out_proj.bias")] if bias else []
        module.load_state_dict({theirs: layer.state_dict()[mine] for mine, theirs in names})
    x = torch.randn(2, 5, 12, generator=generator, dtype=torch.float64, requires_grad=True)
    forbidden = torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None
    truth, _ = module(x, x, x, attn_mask=forbidden, need_weights=False)
    found, state = layer(x, mask.CAUSAL if causal else mask.FULL, None, None)
    assert state is None
    assert_equal(found.detach(), truth.detach())
    truths = torch.autograd.grad((truth**2).sum(), [x, *(module.get_parameter(theirs) for _, theirs in names)])
    founds = torch.autograd.grad((found**2).sum(), [x, *(layer.get_parameter(mine) for mine, _ in names)])
    for mine, theirs in zip(founds, truths, strict=True):
        assert_equal(mine, theirs)


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_grouped_queries_equal_full_heads_whose_keys_and_values_are_repeated(kv_heads: int) -> None:
    generator = torch.Generator().manual_seed(0)
    grouped, full = SelfAttention(12, 4, kv_heads, False).double(), SelfAttention(12, 4, 4, False).double()
    with torch.no_grad():
        for parameter in grouped.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
        q, k, v = grouped.qkv.weight.unflatten(0, (-1, 3)).split((4, kv_heads, kv_heads))
        full.qkv.weight.copy_(torch.cat((q, *(x.repeat_interleave(4 // kv_heads, 0) for x in (k, v)))).flatten(0, 1))
        full.out.weight.copy_(grouped.out.weight)
    x = torch.randn(2, 5, 12, generator=generator, dtype=torch.float64)
    assert_equal(grouped(x, mask.CAUSAL, None, None)[0].detach(), full(x, mask.CAUSAL, None, None)[0].detach())


# Refusals: what was given, what was expected.


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


@pytest.mark.parametrize(
    ("q", "k", "v", "words"),
    [
        (zeros(1, 4, 2, 8), zeros(1, 3, 2, 8), zeros(1, 3, 2, 8), r"3 key/value heads do not divide 4 query heads"),
        (zeros(4, 2, 8), zeros(1, 4, 2, 8), zeros(1, 4, 2, 8), r"four axes.*\(4, 2, 8\)"),
        (zeros(2, 4, 2, 8), zeros(1, 4, 2, 8), zeros(1, 4, 2, 8), r"same batch.*\(2, 4, 2, 8\).*\(1, 4, 2, 8\)"),
        (zeros(1, 4, 2, 8), zeros(1, 4, 2, 6), zeros(1, 4, 2, 8), r"same width.*8\).*6\)"),
        (zeros(1, 4, 2, 8), zeros(1, 4, 2, 8), zeros(1, 4, 3, 8), r"same heads and length.*\(1, 4, 2, 8\).*\(1, 4, 3, 8\)"),
        (zeros(1, 4, 2, 8), zeros(1, 4, 2, 8), zeros(1, 2, 2, 8), r"same heads and length.*\(1, 4, 2, 8\).*\(1, 2, 2, 8\)"),
        (zeros(1, 1, 2, 8, dtype=torch.float64), zeros(1, 1, 2, 8), zeros(1, 1, 2, 8), r"one dtype.*float64.*float32"),
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


@pytest.mark.parametrize("span", [0, -1])
def test_a_window_of_nothing_is_refused(span: int) -> None:
    with pytest.raises(ConfigError, match=rf"window of {span} keys.*at least 1"):
        mask.window(span)


def test_an_unknown_kernel_is_refused_by_name() -> None:
    q, k, v = qkv(2, 2, 2)
    unknown: Any = "flash9"
    with pytest.raises(ConfigError, match=r'no kernel "flash9"; expected auto, sdpa or reference'):
        attend(q, k, v, kernel=unknown)


def test_a_kernel_asked_for_by_name_gives_its_reason_instead_of_another_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    from firth.layers.attention import sdpa

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


@pytest.mark.parametrize("count", [1, 3])
def test_a_mask_of_lengths_must_have_one_per_row(count: int) -> None:
    q = torch.zeros(2, 1, 4, 8)
    with pytest.raises(ConfigError, match=f"given {count} lengths for a batch of 2"):
        attend(q, q, q, mask=mask.lengths(torch.full((count,), 4)))
