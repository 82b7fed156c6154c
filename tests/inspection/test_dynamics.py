"""Attention dynamics: a loop as the oracle, the gradient that a layer is, and what the literature says happens."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from firth.errors import ConfigError
from firth.inspection.dynamics import System, curves, effective_rank, evolve, layer, preset


def test_a_layer_is_attention_and_nothing_else() -> None:
    random = np.random.default_rng(1)
    v, P, Q = random.normal(size=(5, 3)), random.normal(size=(3, 3)), random.normal(size=(3, 3))
    expected = []
    for i in range(5):
        weights = [math.exp(v[i] @ Q @ v[j]) for j in range(5)]
        drift = sum(weight / sum(weights) * v[j] for weight, j in zip(weights, range(5), strict=True))
        expected.append(v[i] + P @ drift)
    np.testing.assert_allclose(layer(v, P, Q), expected, rtol=1e-12)


def test_with_p_minus_eta_q_a_layer_is_a_step_down_the_slope() -> None:
    system, eta = preset("lecture", n=7, d=4, seed=3), 0.3
    fixed = torch.from_numpy(system.v_nd)
    v = fixed.clone().requires_grad_()
    torch.logsumexp(v @ torch.from_numpy(system.Q_dd) @ fixed.T, dim=1).sum().backward()
    assert v.grad is not None
    moved = layer(system.v_nd, -eta * system.Q_dd, system.Q_dd)
    np.testing.assert_allclose(moved, (v - eta * v.grad).detach().numpy(), rtol=1e-12)


def test_the_lecture_draws_as_it_says() -> None:
    system = preset("lecture", n=4000, d=64, seed=5)
    assert system.v_nd.var() == pytest.approx(1 / (2 * 64**0.5), rel=0.02)
    np.testing.assert_array_equal(system.P_dd, -0.01 * np.eye(64))
    np.testing.assert_allclose(system.Q_dd, system.Q_dd.T)
    # trace of GGᵀ is Σ G_ij²: d² draws of variance 1/d
    assert np.trace(system.Q_dd) == pytest.approx(64, rel=0.1)
    assert preset("lecture").v_nd.shape == (64, 2)


def test_a_seed_is_a_system() -> None:
    one, same, other = (evolve(preset("lecture", seed=seed), 3).v_Lnd for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)


def test_tokens_gather() -> None:
    """Geshkovski et al. 2023: with the identity for all matrices, tokens end at the corners of a polygon."""
    path = evolve(preset("clusters"), 200)
    assert path.curves.clusters[0] > 20
    assert path.curves.clusters[-1] <= 8
    assert 1 < np.abs(path.v_Lnd[-1]).max() < 10  # the growth that all have in common is taken out


def test_points_draw_together_in_the_lectures_setting() -> None:
    """P is negative, so that every token is pushed away from what it looks at, itself first of all."""
    found = evolve(preset("lecture", d=64), 400).curves
    assert found.mean_distance[-1] < 0.7 * found.mean_distance[0]
    assert list(found.mean_distance) == sorted(found.mean_distance, reverse=True)


def test_the_rank_falls_where_tokens_are_drawn_to_what_they_look_at() -> None:
    found = evolve(preset("lecture", d=64, p=0.01), 200).curves
    assert found.effective_rank[-1] < 0.95 * found.effective_rank[0]


def test_effective_rank_of_what_is_known() -> None:
    assert effective_rank(np.diag([2.0, 2.0, 2.0, 0.0])) == pytest.approx(3)
    assert effective_rank(np.ones((5, 4))) == pytest.approx(1)
    assert effective_rank(np.zeros((5, 4))) == 0
    share = np.array([0.75, 0.25])
    assert effective_rank(np.diag([3.0, 1.0])) == pytest.approx(math.exp(-(share * np.log(share)).sum()))


def test_curves_of_sets_of_different_width() -> None:
    """As of a model whose embedding is narrower than its layers."""
    square = np.array([[0.0, 0.0], [0.0, 3.0], [4.0, 0.0], [4.0, 0.01]])
    found = curves([square, np.zeros((4, 7))])
    pairs = [3.0, 4.0, math.hypot(4, 0.01), 5.0, math.hypot(4, 2.99), 0.01]
    assert found.mean_distance == pytest.approx((sum(pairs) / 6, 0))
    assert found.clusters == (3, 1)


def test_a_chain_of_neighbours_is_one_cluster() -> None:
    chain = np.arange(60.0)[:, None]
    assert curves([chain, np.concatenate((chain, [[70.0]]))]).clusters == (1, 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n": 1}, "n is 1; expected at least 2"),
        ({"d": 0}, "d is 0; expected at least 1"),
        ({"name": "cluster"}, 'unknown preset "cluster"'),
    ],
)
def test_what_cannot_move(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        preset(**{"name": "lecture", **given})  # type: ignore[arg-type]


def test_points_that_leave_all_bounds_say_so() -> None:
    system = System(np.array([[1e200], [-1e200]]), 1e200 * np.eye(1), np.eye(1))
    with np.errstate(all="ignore"), pytest.raises(ConfigError, match="overflow after 1 layers"):
        evolve(system, 3)
    with pytest.raises(ConfigError, match="depth is 0"):
        evolve(preset("lecture"), 0)
