"""Scores: the known answers of a database of keys and values, and what each score refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from attention_cases import SCORES, A, C, Case, D, H
from tolerance import assert_equal
from torch import Tensor

from firth.errors import ConfigError
from firth.layers.attention import attend, mask, score

KERNELS: tuple[Any, ...] = ("reference", "sdpa", "chunked", "auto")


def some(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def single(*rows: list[float]) -> Tensor:
    """A database of one batch and one head."""
    return torch.tensor(rows, dtype=torch.float64)[None, None]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("chosen", "scale"), [(score.SCALED_DOT, None), (score.DOT, 1 / 8), (score.SCALED_DOT, 1 / 8)])
def test_scores_112_and_96_over_8_weigh_088_and_012(kernel: Any, chosen: score.Score, scale: float | None) -> None:
    """√d_k = 8 is d_k = 64: q = 1s, keys that sum to 112 and 96, values that show the weights."""
    q, k, v = single([1.0] * 64), single([112 / 64] * 64, [96 / 64] * 64), single([1.0, 0.0], [0.0, 1.0])
    o = attend(q, k, v, score=chosen, scale=scale, kernel=kernel).flatten()
    assert [round(share, 2) for share in o.tolist()] == [0.88, 0.12]
    assert_equal(o, torch.tensor([1 / (1 + math.exp(-2)), 1 / (1 + math.exp(2))], dtype=torch.float64))


NAMES = ["Ada", "Bo", "Cy"]
ROLES = single([1.0, 10.0], [2.0, 20.0], [3.0, 30.0])  # a number per role, twice over
EYE = torch.eye(3, dtype=torch.float64)
LOOKUPS = {  # a score, and what is added to the one-hot query
    "dot": (score.DOT, 0.0),
    "scaled dot": (score.SCALED_DOT, 0.0),
    "gaussian": (score.GAUSSIAN, 0.0),
    "bilinear": (score.bilinear(EYE), 0.0),
    # Left of 0 tanh is convex: a whole match beats two halves.
    "additive": (score.additive(torch.ones(3, dtype=torch.float64)), -2.0),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", LOOKUPS)
def test_an_exact_match_gives_the_role_of_the_name_and_no_preference_their_mean(kind: str, name: str) -> None:
    """A steep scale makes the weights one-hot, a scale of 0 makes them uniform."""
    (chosen, shift), row = LOOKUPS[kind], NAMES.index(name)
    q, keys = EYE[None, None, row : row + 1] + shift, EYE[None, None]
    for kernel in ("reference", "chunked", "auto"):
        steep = attend(q, keys, ROLES, score=chosen, scale=1e4, kernel=kernel)
        assert_equal(steep[0, 0, 0], ROLES[0, 0, row])
        flat = attend(q, keys, ROLES, score=chosen, scale=0.0, kernel=kernel)
        assert_equal(flat[0, 0, 0], torch.tensor([2.0, 20.0], dtype=torch.float64))


@pytest.mark.parametrize("kind", SCORES)
def test_keys_that_are_all_alike_give_the_mean_of_the_values_that_are_there(kind: str) -> None:
    """The example of Dive into Deep Learning §11.3: values 0 … 39 in ten rows of four, valid lengths 2 and 6."""
    case = Case(kind, "none", 2)
    given = case.tensors()
    given["k"] = torch.ones(2, 2, 10, given["k"].shape[3], dtype=torch.float64)
    given["v"] = torch.arange(40, dtype=torch.float64).view(1, 1, 10, 4).expand(2, 2, 10, 4)
    o = case.attend(given, mask.lengths(torch.tensor([2, 6])), "auto")
    for row, truth in enumerate(([2.0, 3.0, 4.0, 5.0], [10.0, 11.0, 12.0, 13.0])):
        assert_equal(o[row], torch.tensor(truth, dtype=torch.float64).expand_as(o[row]))


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_gaussian_score_is_kernel_regression(kernel: Any) -> None:
    """Nadaraya and Watson: Σ y_i e^{−(x − x_i)²/2} / Σ e^{−(x − x_i)²/2}; a scale of 1/σ² sets the width of the bell."""
    x, points, y, width = 0.7, [-1.0, 0.0, 2.0], [3.0, -1.0, 5.0], 0.5
    bell = [math.exp(-((x - at) ** 2) / (2 * width**2)) for at in points]
    truth = sum(b * value for b, value in zip(bell, y, strict=True)) / sum(bell)
    keys, values = single(*([at] for at in points)), single(*([value] for value in y))
    o = attend(single([x]), keys, values, score=score.GAUSSIAN, scale=1 / width**2, kernel=kernel)
    assert_equal(o.flatten(), torch.tensor([truth], dtype=torch.float64))


def test_the_gaussian_score_is_the_whole_of_it() -> None:
    """−½‖q‖² cancels in the softmax but is part of a(q, k): that of q with itself is 0."""
    x = some(1, 1, 1, 5, 4)
    s_QK = score.GAUSSIAN.between(x, x).squeeze()
    assert_equal(s_QK.diagonal(), torch.zeros(5, dtype=torch.float64))
    assert_equal(s_QK, -0.5 * torch.cdist(x, x).squeeze() ** 2)
    assert_equal(score.GAUSSIAN.between(x, x.unsqueeze(-3).expand(1, 1, 1, 5, 5, 4)).squeeze(), s_QK)


def test_a_bilinear_score_with_the_unit_matrix_is_the_dot_product() -> None:
    q, k, v = some(2, 4, 3, 6), some(2, 2, 5, 6, seed=1), some(2, 2, 5, 3, seed=2)
    o = attend(q, k, v, score=score.bilinear(torch.eye(6, dtype=torch.float64)))
    assert_equal(o, attend(q, k, v, score=score.DOT))


def test_default_scales() -> None:
    assert score.SCALED_DOT.default_scale(64) == 1 / 8
    w, M = torch.ones(4), torch.eye(4)
    assert [one.default_scale(64) for one in (score.DOT, score.GAUSSIAN, score.bilinear(M), score.additive(w))] == [1.0] * 4


def test_parameters_are_brought_to_the_precision_of_the_queries() -> None:
    """As a model under autocast has it: q and k in bfloat16, parameters in float32."""
    for kind in ("bilinear", "additive", "additive, W per head"):
        case = Case(kind, "none", 2)
        given = case.tensors(torch.float32)
        low = {name: tensor.bfloat16() if name in "qkv" else tensor for name, tensor in given.items()}
        rounded = {name: tensor.bfloat16() for name, tensor in given.items()}
        for kernel in ("reference", "auto"):
            o = case.attend(low, mask.CAUSAL, kernel)
            assert o.dtype == torch.bfloat16
            assert torch.equal(o, case.attend(rounded, mask.CAUSAL, kernel))


# Refusals: what was given, what was expected.


@pytest.mark.parametrize("chosen", [score.DOT, score.SCALED_DOT, score.GAUSSIAN])
def test_widths_that_differ_are_refused_where_the_score_cannot_bridge_them(chosen: score.Score) -> None:
    with pytest.raises(ConfigError, match=r"q has width 4 and k has width 6; .*score\.bilinear"):
        attend(some(1, H, 2, D), some(1, 2, 3, C), some(1, 2, 3, 5), score=chosen)


def ones(*shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.float64)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (score.bilinear(ones(C, D)), r"score\.bilinear's M has shape \(6, 4\); expected \(4, 4, 6\) .* or \(4, 6\)"),
        (score.bilinear(ones(3, D, C)), r"score\.bilinear's M has shape \(3, 4, 6\); expected \(4, 4, 6\)"),
        (score.additive(ones(H, D)), r"query of width 4 to a key of width 6; W_q and W_k must map both to the same width"),
        (score.additive(ones(H, A), ones(D, 5), ones(C, A)), r"query of width 5 to a key of width 6"),
        (score.additive(ones(H, A), ones(C, A)), r"W_q has shape \(6, 6\); expected \(4, 4, 6\) .* or \(4, 6\)"),
        (score.additive(ones(H, D), None, ones(H, C, D)), r"W_k has shape \(4, 6, 4\); expected \(2, 6, 4\) .* or \(6, 4\)"),
        (score.additive(ones(3, D), None, ones(C, D)), r"score\.additive's w has shape \(3, 4\); expected \(4, 4\) .* or \(4,\)"),
        (score.additive(ones(7), None, ones(C, D)), r"score\.additive's w has shape \(7,\); expected \(4, 4\) .* or \(4,\)"),
        (score.additive(ones(4), torch.tensor(1.0)), r"score\.additive's W_q has shape \(\)"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_with_both_shapes(chosen: score.Score, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        attend(some(1, H, 2, D), some(1, 2, 3, C), some(1, 2, 3, 5), score=chosen)


@pytest.mark.parametrize(
    ("chosen", "name"),
    [
        (score.bilinear(torch.ones(D, D, device="meta")), "M_HDC of Bilinear"),
        (score.additive(torch.ones(D, device="meta")), "w_HA of Additive"),
        (score.additive(ones(D), W_k_GCA=torch.ones(D, D, device="meta")), "W_k_GCA of Additive"),
    ],
)
def test_parameters_on_another_device_are_refused(chosen: score.Score, name: str) -> None:
    x = some(1, H, 2, D)
    with pytest.raises(ConfigError, match=rf"{name} is on meta, q, k and v are on cpu; move all to one device"):
        attend(x, x, x, score=chosen)
