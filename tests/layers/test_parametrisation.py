"""Self-attention in its three parametrisations, against loops that say each as it is taught."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tolerance import assert_equal
from torch import Tensor

from firth.errors import ConfigError
from firth.layers import taught_attention as parametrisation
from firth.layers.attention import mask, score
from firth.layers.attention.config import AttentionConfig
from firth.layers.block_config import BlockConfig
from firth.layers.self_attention import SelfAttention
from firth.oracles import attention as oracle

B, T, WIDTH, HEADS = 2, 5, 6, 3
RULES: dict[str, tuple[mask.Mask, Any]] = {
    "full": (mask.FULL, oracle.everything),
    "causal": (mask.CAUSAL, lambda b, h, q, k: k <= q),
    "strictly causal": (mask.STRICTLY_CAUSAL, lambda b, h, q, k: k < q),
    "all but self": (mask.ALL_BUT_SELF, lambda b, h, q, k: k != q),
}


def some(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("rule", RULES)
def test_plain_self_attention_equals_the_loops(rule: str) -> None:
    allowed_mask, allowed = RULES[rule]
    x = some(B, T, WIDTH)
    assert_equal(parametrisation.plain(x, mask=allowed_mask), torch.from_numpy(oracle.plain(x.numpy(), allowed)))


@pytest.mark.parametrize("kv_heads", [1, HEADS])
@pytest.mark.parametrize("rule", RULES)
def test_projected_self_attention_equals_the_loops(rule: str, kv_heads: int) -> None:
    allowed_mask, allowed = RULES[rule]
    D = 2
    x, W_Q, W_O = some(B, T, WIDTH), some(WIDTH, HEADS * D, seed=1), some(HEADS * D, WIDTH, seed=2)
    W_K, W_V = some(WIDTH, kv_heads * D, seed=3), some(WIDTH, kv_heads * D, seed=4)
    truth = oracle.projected(*(each.numpy() for each in (x, W_Q, W_K, W_V, W_O)), HEADS, allowed)
    assert_equal(parametrisation.projected(x, W_Q, W_K, W_V, W_O, HEADS, mask=allowed_mask), torch.from_numpy(truth))


@pytest.mark.parametrize("rule", RULES)
def test_residual_self_attention_equals_the_loops(rule: str) -> None:
    """v⁺ = v + P Σ α v with α_ij ∝ exp(v_jᵀ Q v_i): neither P nor Q is symmetric here, so that a transposed one would show."""
    allowed_mask, allowed = RULES[rule]
    v, P, Q = some(B, T, WIDTH), some(WIDTH, WIDTH, seed=1), 0.3 * some(WIDTH, WIDTH, seed=2)
    truth = oracle.residual(v.numpy(), P.numpy(), Q.numpy(), allowed)
    assert_equal(parametrisation.residual(v, P, Q, mask=allowed_mask), torch.from_numpy(truth))


def test_the_first_position_of_a_strictly_causal_layer_stays_where_it_is() -> None:
    """There is nothing to look at, so v⁺ = v, to the last bit; the others move."""
    v, P, Q = some(B, T, WIDTH), some(WIDTH, WIDTH, seed=1), some(WIDTH, WIDTH, seed=2)
    moved = parametrisation.residual(v, P, Q, mask=mask.STRICTLY_CAUSAL)
    assert torch.equal(moved[:, 0], v[:, 0])
    assert (moved[:, 1:] - v[:, 1:]).abs().amin(-1).gt(0).all()


def test_the_second_position_of_a_strictly_causal_layer_moves_by_p_times_the_first() -> None:
    v, P, Q = some(B, T, WIDTH), some(WIDTH, WIDTH, seed=1), some(WIDTH, WIDTH, seed=2)
    moved = parametrisation.residual(v, P, Q, mask=mask.STRICTLY_CAUSAL)
    assert_equal(moved[:, 1] - v[:, 1], torch.einsum("nm,bm->bn", P, v[:, 0]))


def test_tokens_that_are_all_alike_stay_as_they_are() -> None:
    x = some(B, 1, WIDTH).expand(B, T, WIDTH)
    assert_equal(parametrisation.plain(x), x)


def test_projected_with_unit_matrices_is_plain() -> None:
    x, unit = some(B, T, WIDTH), torch.eye(WIDTH, dtype=torch.float64)
    for chosen in (score.SCALED_DOT, score.GAUSSIAN):
        plain = parametrisation.plain(x, score=chosen)
        assert_equal(parametrisation.projected(x, unit, unit, unit, unit, 1, score=chosen), plain)


def test_models_use_the_projected_one_with_its_matrices_in_one() -> None:
    layer = SelfAttention(BlockConfig(width=WIDTH, attention=AttentionConfig(heads=HEADS, kv_heads=1))).double()
    with torch.no_grad():
        for n, parameter in enumerate(layer.parameters()):
            parameter.copy_(some(*parameter.shape, seed=n))
    x = some(B, T, WIDTH, seed=9)
    W_Q, W_K, W_V = (W.T for W in layer.qkv.weight.detach().split((WIDTH, 2, 2)))
    truth = parametrisation.projected(x, W_Q, W_K, W_V, layer.out.weight.detach().T, HEADS, mask=mask.CAUSAL)
    assert_equal(layer(x, mask.CAUSAL, None, None)[0].detach(), truth)


def test_matrices_that_do_not_divide_into_heads_are_refused() -> None:
    x, six = some(B, T, WIDTH), some(WIDTH, WIDTH)
    with pytest.raises(ConfigError, match=r"W\^Q has 6 columns and W\^K 6 for 4 heads"):
        parametrisation.projected(x, six, six, six, six, 4)
    with pytest.raises(ConfigError, match=r"W\^Q has 6 columns and W\^K 5 for 3 heads"):
        parametrisation.projected(x, six, six[:, :5], six[:, :5], six, 3)
    with pytest.raises(ConfigError, match=r"2 key/value heads do not divide 3 query heads"):
        parametrisation.projected(x, six, six[:, :4], six[:, :4], six, 3)


def test_matrices_that_do_not_fit_are_refused_with_both_numbers() -> None:
    x, W = torch.zeros(1, 3, 8), torch.zeros(8, 8)
    with pytest.raises(ConfigError, match=r"W\^V has 5 columns where W\^K has 8"):
        parametrisation.projected(x, W, W, torch.zeros(8, 5), W, 2)
    with pytest.raises(ConfigError, match=r"W\^O 6 rows where W\^Q has 8 columns"):
        parametrisation.projected(x, W, W, W, torch.zeros(6, 8), 2)
    with pytest.raises(ConfigError, match=r"P has shape \(8, 7\).*width 8"):
        parametrisation.residual(x, torch.zeros(8, 7), W)
    with pytest.raises(ConfigError, match=r"Q has shape \(7, 8\).*width 8"):
        parametrisation.residual(x, W, torch.zeros(7, 8))
