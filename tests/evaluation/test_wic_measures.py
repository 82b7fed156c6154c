"""Thresholds against trying all of them, and that nothing is chosen by the pairs that are reported."""

from __future__ import annotations

import numpy as np
import pytest

from firth.errors import DataError
from firth.evaluation.wic import PairCosines, accuracy, best_threshold, cosines, measure, units


@pytest.mark.parametrize("count", [1, 2, 5, 30])
def test_no_threshold_is_better(count: int) -> None:
    """Many pairs have the same cosine, and no threshold stands between those."""
    draw = np.random.default_rng(count)
    for _ in range(50):
        cosine, same = draw.integers(-4, 5, count) / 4, draw.random(count) < 0.5
        threshold, share = best_threshold(cosine, same)
        assert share == pytest.approx(accuracy(cosine, same, threshold))
        assert share == pytest.approx(max(accuracy(cosine, same, other) for other in np.linspace(-2, 2, 33)))


def test_the_threshold_stands_in_the_middle() -> None:
    assert best_threshold([0.9, 0.2, 0.8, 0.1], [True, False, True, False]) == (0.5, 1.0)


def test_where_the_cosine_says_nothing_all_are_called_what_most_are() -> None:
    """A static vector of words that never change their form."""
    threshold, share = best_threshold([1.0] * 5, [True, True, True, False, False])
    assert (threshold <= 1, share) == (True, 0.6)
    threshold, share = best_threshold([1.0] * 5, [True, False, False, False, False])
    assert (threshold > 1, share) == (True, 0.8)


def test_no_pairs_are_refused() -> None:
    with pytest.raises(DataError, match="there are no pairs to choose a threshold by"):
        best_threshold([], [])


def pairs(same: list[bool], **cosine: list[float]) -> PairCosines:
    return PairCosines({int(name[1:]): np.array(values) for name, values in cosine.items()}, np.array(same))


def test_layer_and_threshold_come_from_the_training_pairs_alone() -> None:
    train = pairs([True, True, False, False], _0=[1, 1, 1, 1], _1=[0.9, 0.4, 0.5, 0.3], _2=[0.9, 0.8, 0.2, 0.1])
    # Here layer 1 would be the better one, and another threshold in layer 2.
    dev = pairs([True, False, False], _0=[1, 1, 0], _1=[0.9, 0.1, 0.1], _2=[0.9, 0.7, 0.1])
    scores = measure(train, dev)
    assert (scores.layer, scores.threshold) == (2, 0.5)
    assert (scores.accuracy, scores.train_accuracy) == (pytest.approx(2 / 3), 1.0)
    assert (scores.pairs, scores.train_pairs) == (3, 4)
    # Every threshold of the embedding is right for half of the training pairs; the lowest of them is taken.
    assert scores.static_accuracy == scores.majority == pytest.approx(1 / 3)


def test_the_embedding_is_never_the_chosen_layer_where_there_is_another() -> None:
    scores = measure(pairs([True, False], _0=[1, 0], _1=[0, 1]), pairs([True, False], _0=[1, 0], _1=[0, 1]))
    assert (scores.layer, scores.static_accuracy) == (1, 1.0)
    alone = measure(pairs([True, False], _0=[1, 0]), pairs([True, False], _0=[1, 0]))
    assert (alone.layer, alone.accuracy) == (0, 1.0)


def test_cosines_are_row_by_row_and_of_nothing_zero() -> None:
    x = np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0], [2e20, 0.0]], np.float32)
    y = np.array([[4.0, 3.0], [-2.0, 0.0], [1.0, 0.0], [1e20, 0.0]], np.float32)
    np.testing.assert_allclose(cosines(x, y), [24 / 25, -1, 0, 1])
    z = np.random.default_rng(0).normal(size=(100, 7))
    assert (cosines(z, z) == 1).all()
    np.testing.assert_allclose(np.linalg.norm(units(x), axis=1), [1, 1, 0, 1])
