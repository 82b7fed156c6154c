"""Attention dynamics: a loop as the oracle, the gradient that a layer is, and what the literature says happens."""

from __future__ import annotations

import itertools
import math
from typing import get_args

import numpy as np
import pytest
import torch

from firth.errors import ConfigError
from firth.figures.dynamics import points
from firth.inspection.dynamics import Curves, PresetName, System, attention, curves, effective_rank, evolve, layer, preset
from firth.inspection.dynamics_matrices import Matrix, parsed


def test_a_layer_is_attention_and_nothing_else() -> None:
    random = np.random.default_rng(1)
    v, P, Q = random.normal(size=(5, 3)), random.normal(size=(3, 3)), random.normal(size=(3, 3))
    expected = []
    for i in range(5):
        weights = [math.exp(v[j] @ Q @ v[i]) for j in range(5)]  # α_ij ∝ exp(v_jᵀ Q v_i)
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
    random = np.random.default_rng(5)  # G first, then the tokens
    G = random.normal(0, 64**-0.5, (64, 64))
    np.testing.assert_allclose(system.Q_dd, G @ G.T, rtol=1e-12)
    np.testing.assert_array_equal(system.v_nd, random.normal(0, (2 * 64**0.5) ** -0.5, (4000, 64)))


def test_a_seed_is_a_system() -> None:
    one, same, other = (evolve(preset("lecture", seed=seed), 3).v_Lnd for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)


@pytest.mark.parametrize("name", get_args(PresetName))
def test_a_preset_computes_the_formula_that_it_shows(name: PresetName) -> None:
    """Nothing is divided out between two layers, unless the formula has a factor."""
    for factor, formula in ((1.0, "v ← v + P Σ α v"), (0.905, "v ← 0.905 · (v + P Σ α v)")):
        system = preset(name).rescaled(factor)
        assert system.formula == formula
        v_Lnd = evolve(system, 3).v_Lnd
        for before, after in itertools.pairwise(v_Lnd):
            np.testing.assert_array_equal(after, factor * layer(before, system.P_dd, system.Q_dd))


def test_tokens_gather_and_stay_apart() -> None:
    """Geshkovski et al. 2023: with the identity for all matrices, tokens end at the corners of a polygon."""
    path = evolve(preset("clusters"), 400)
    assert path.curves.clusters[0] > 20
    assert 2 < path.curves.clusters[100] == path.curves.clusters[400] <= 8
    assert path.curves.growth == pytest.approx(1.1)
    shown = path.v_Lnd[[100, 400]] / 1.1 ** np.array([100, 400])[:, None, None]
    np.testing.assert_allclose(shown[1], shown[0], atol=0.02)  # as the paper draws them, they no longer move
    distances = np.linalg.norm(shown[1][:, None] - shown[1], axis=-1)
    assert path.curves.mean_distance[400] == pytest.approx(distances.sum() / (40 * 39))
    assert "the mean distance, divided by 1.1 per layer, rises" in path.curves.summary()


def test_tokens_that_are_kept_small_all_meet() -> None:
    path = evolve(preset("clusters").rescaled(math.exp(-0.1)), 400)
    assert path.curves.growth == 1
    assert (path.curves.clusters[60], path.curves.clusters[-1]) == (4, 1)
    assert np.linalg.norm(path.v_Lnd[-1][:, None] - path.v_Lnd[-1], axis=-1).max() < 0.001


def test_what_grows_is_drawn_divided_by_its_growth() -> None:
    path = evolve(preset("clusters", n=5), 60)
    figure = points(path.v_Lnd, path.curves.growth)
    for frame in figure.plot.frames:
        drawn = np.stack((frame.data[0].x, frame.data[0].y), 1)
        np.testing.assert_allclose(drawn, path.v_Lnd[int(frame.name)] / 1.1 ** int(frame.name), rtol=1e-12)
    assert [frame.name for frame in figure.plot.frames][:4] == ["0", "1", "2", "3"]  # the lecture's V⁽²⁾ among them
    np.testing.assert_array_equal(figure.plot.data[1].x, path.v_Lnd[0, :, 0])
    assert figure.table.headings[2:] == ("dimension 1 / 1.1^layer", "dimension 2 / 1.1^layer")
    lecture = evolve(preset("lecture"), 2)
    assert points(lecture.v_Lnd, lecture.curves.growth).table.headings[2:] == ("dimension 1", "dimension 2")


def test_points_draw_together_in_the_lectures_setting() -> None:
    """P is negative, so that every token is pushed away from what it looks at, itself first of all."""
    measured = evolve(preset("lecture", d=64), 400).curves
    assert measured.mean_distance[-1] < 0.7 * measured.mean_distance[0]
    assert list(measured.mean_distance) == sorted(measured.mean_distance, reverse=True)


def test_the_rank_falls_where_tokens_are_drawn_to_what_they_look_at() -> None:
    measured = evolve(preset("lecture", d=64, p=0.01), 200).curves
    assert measured.effective_rank[-1] < 0.95 * measured.effective_rank[0]


def test_with_q_0_all_tokens_turn_to_their_mean() -> None:
    """Uniform attention: v_i + ((1 + p)^L − 1) · mean, so the mean grows and everything else stays; the rank goes to 1."""
    system = preset("lecture", n=9, d=5, p=0.2, q=0.0)
    path = evolve(system, 60)
    v, mean = system.v_nd, system.v_nd.mean(0)
    for depth in (1, 7, 60):
        np.testing.assert_allclose(path.v_Lnd[depth], v + (1.2**depth - 1) * mean, rtol=1e-10)
    assert path.curves.effective_rank[-1] == pytest.approx(1, abs=0.01)
    assert path.curves.attention_rank == pytest.approx([1] * 61)
    last = path.v_Lnd[-1]
    assert (last @ mean / np.linalg.norm(last, axis=1) / np.linalg.norm(mean)).min() > 0.9999


def test_a_p_of_low_rank_moves_tokens_in_its_column_space_only() -> None:
    for r in (1, 3):
        system = preset("lecture", n=12, d=8, p=0.3, P=Matrix("low-rank", rank=r), seed=2)
        moved = evolve(system, 20).v_Lnd - system.v_nd
        U, s, _ = np.linalg.svd(system.P_dd)
        assert (s > 1e-12).sum() == r
        assert np.abs(moved[-1] @ U[:, :r]).max() > 0.1
        np.testing.assert_allclose(moved @ U[:, r:], 0, atol=1e-12)
        np.testing.assert_array_equal(system.v_nd, preset("lecture", n=12, d=8, seed=2).v_nd)  # P changes no token


def test_the_rank_falls_to_that_of_p_in_the_preset_low_rank() -> None:
    system = preset("low-rank")
    path = evolve(system, 200)
    assert path.curves.effective_rank[0] > 40
    assert path.curves.effective_rank[-1] <= 2.001
    assert path.curves.attention_rank[-1] < 0.15 * path.curves.attention_rank[0]
    assert path.curves.clusters[-1] <= 10
    U = np.linalg.svd(system.P_dd)[0]
    kept, rest = path.v_Lnd @ U[:, :2], path.v_Lnd @ U[:, 2:]
    assert np.abs(kept[-1]).max() > 1.1**190
    np.testing.assert_allclose(rest[20], rest[0], atol=1e-9)  # no layer adds to these directions


def test_in_the_lectures_setting_the_attention_weights_lose_rank_and_the_tokens_do_not() -> None:
    for seed in range(3):
        measured = evolve(preset("lecture", d=64, seed=seed), 200).curves
        assert measured.attention_rank[-1] < 0.85 * measured.attention_rank[0]
        assert measured.effective_rank[-1] > measured.effective_rank[0]


def test_tokens_that_all_meet_are_one_cluster() -> None:
    """Their distances are rounding errors of their own size, of which 2 % would separate them again."""
    random = np.random.default_rng(0)
    two_steps = curves([random.normal(size=(20, 3)), np.ones((20, 3)) + 1e-9 * random.normal(size=(20, 3))])
    assert two_steps.clusters[0] > 10
    assert two_steps.clusters[1] == 1


def test_matrices_are_what_their_names_say() -> None:
    np.testing.assert_array_equal(Matrix("identity").drawn(3, 0), np.eye(3))
    G = Matrix("random").drawn(200, 4)
    assert G.var() == pytest.approx(1 / 200, rel=0.02)
    np.testing.assert_allclose(Matrix("gram").drawn(200, 4), G @ G.T)
    projection = Matrix("low-rank", rank=3).drawn(7, 1)
    np.testing.assert_allclose(projection @ projection, projection, atol=1e-14)
    assert np.trace(projection) == pytest.approx(3)
    chosen = Matrix("spectrum", spectrum=(2.0, -1.0, 0.5)).drawn(6, 1)
    np.testing.assert_allclose(chosen, chosen.T, atol=1e-15)
    np.testing.assert_allclose(np.linalg.eigvalsh(chosen), [-1, 0, 0, 0, 0.5, 2], atol=1e-14)


def test_a_matrix_is_read_as_it_is_written() -> None:
    for text in ("identity", "random", "gram", "low-rank:4", "spectrum:1,0.5,-0.1"):
        assert str(parsed(text)) == text
    assert parsed("spectrum:1 2").spectrum == (1, 2)


def test_the_rank_of_attention_is_1_if_uniform_and_n_if_each_token_attends_to_itself() -> None:
    v = np.eye(5)
    np.testing.assert_allclose(attention(v, 1000 * np.eye(5)), np.eye(5), atol=1e-12)
    assert curves([v], 0 * np.eye(5)).attention_rank == pytest.approx([1])
    assert curves([v], 1000 * np.eye(5)).attention_rank == pytest.approx([5])
    assert curves([v]).attention_rank == ()


def test_a_summary_says_what_the_curves_do() -> None:
    told = Curves((3.0, 9.0, 2.0), (1.0, 1.5, 1.0), (7, 7, 7), (1.0, 1.0, 2.5)).summary()
    assert told == (
        "From layer 0 to layer 2, the effective rank of the tokens falls from 3 to 2, that of the attention weights rises from 1 "
        "to 2.5, the mean distance begins and ends at 1, and the number of clusters stays at 7."
    )
    assert "attention" not in Curves((1.0,), (1.0,), (1,)).summary()


def test_effective_rank_of_what_is_known() -> None:
    assert effective_rank(np.diag([2.0, 2.0, 2.0, 0.0])) == pytest.approx(3)
    assert effective_rank(np.ones((5, 4))) == pytest.approx(1)
    assert effective_rank(np.zeros((5, 4))) == 0
    share = np.array([0.75, 0.25])
    assert effective_rank(np.diag([3.0, 1.0])) == pytest.approx(math.exp(-(share * np.log(share)).sum()))


def test_curves_are_computed_for_sets_of_different_width() -> None:
    """As of a model whose embedding is narrower than its layers."""
    square = np.array([[0.0, 0.0], [0.0, 3.0], [4.0, 0.0], [4.0, 0.01]])
    two_steps = curves([square, np.zeros((4, 7))])
    pairs = [3.0, 4.0, math.hypot(4, 0.01), 5.0, math.hypot(4, 2.99), 0.01]
    assert two_steps.mean_distance == pytest.approx((sum(pairs) / 6, 0))
    assert two_steps.clusters == (3, 1)


def test_a_chain_of_neighbours_is_one_cluster() -> None:
    chain = np.arange(60.0)[:, None]
    assert curves([chain, np.concatenate((chain, [[70.0]]))]).clusters == (1, 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n": 1}, "n is 1; expected at least 2"),
        ({"d": 0}, "d is 0; expected at least 1"),
        ({"name": "cluster"}, 'unknown preset "cluster"; expected clusters, low-rank, lecture'),
        ({"P": Matrix("low-rank", rank=3)}, "the rank of low-rank:3 is 3; expected at most the dimension, 2"),
        ({"Q": Matrix("spectrum", spectrum=(1, 2, 3))}, "number of eigenvalues of spectrum:1,2,3 is 3"),
    ],
)
def test_settings_in_which_nothing_can_move_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        preset(**{"name": "lecture", **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["", "lowrank", "low-rank", "low-rank:x", "low-rank:0", "spectrum:", "spectrum:a", "gram:2", "spectrum:nan"]
)
def test_what_is_no_matrix_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parsed(text)


def test_points_that_leave_all_bounds_say_so() -> None:
    system = System(np.array([[1e200], [-1e200]]), 1e200 * np.eye(1), np.eye(1))
    with np.errstate(all="ignore"), pytest.raises(ConfigError, match="overflow after 1 layers"):
        evolve(system, 3)
    with pytest.raises(ConfigError, match="depth is 0"):
        evolve(preset("lecture"), 0)
    with pytest.raises(ConfigError, match="the factor of each layer is 0; expected a number above 0"):
        preset("lecture").rescaled(0)
