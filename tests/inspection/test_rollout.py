"""Attention rollout: tiny known answers and the formula."""

from __future__ import annotations

import numpy as np
import pytest

from firth.errors import DataError
from firth.inspection.rollout import rollout


def test_half_of_a_token_stays_its_own_in_each_layer() -> None:
    """The second token takes all from the first: half of it stays its own in each layer."""
    A = [[1.0, 0.0], [1.0, 0.0]]
    assert rollout([A, A]).tolist() == [[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [0.75, 0.25]]]


def test_layers_are_multiplied_the_later_one_from_the_left() -> None:
    A, B = np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([[0.2, 0.8], [0.5, 0.5]])
    first, second = (0.5 * (one + np.eye(2)) for one in (A, B))
    np.testing.assert_allclose(rollout([A, B])[1], second @ first, rtol=1e-15)


def test_rows_sum_to_one_whatever_the_rows_of_attention_do() -> None:
    """A row without weights hands on what was there; rounding does not add up over fifty layers."""
    generator = np.random.default_rng(0)
    A = generator.random((50, 7, 7))
    A /= A.sum(-1, keepdims=True) * 1.001
    A[:, 0] = 0.0
    products = rollout(A)
    np.testing.assert_allclose(products.sum(-1), 1.0, rtol=1e-12)
    assert products[-1, 0].tolist() == [1.0] + [0.0] * 6


@pytest.mark.parametrize(
    ("layers", "message"),
    [([], "at least one layer; got none"), ([[[1.0, 0.0]]], r"attention has shape \(1, 2\); rollout needs the square matrices")],
    ids=["none", "cross"],
)
def test_what_is_no_self_attention_is_refused(layers: list[list[list[float]]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        rollout(layers)
