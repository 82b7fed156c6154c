from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.text.batches.permutation import keys, permuted


def key(seed: int) -> np.ndarray:
    return keys(seed, np.zeros(1, np.uint64), 0)


def shuffled(n: int, seed: int) -> np.ndarray:
    return permuted(np.arange(n, dtype=np.uint64), n, key(seed))


@pytest.mark.parametrize("n", [*range(1, 70), 127, 128, 129, 1000, 65536, 65537, 99_991])
def test_every_index_is_hit_exactly_once(n: int) -> None:
    assert np.array_equal(np.sort(shuffled(n, seed=n)), np.arange(n))


@given(st.integers(1, 5000), st.integers(0, 2**64 - 1))
def test_every_index_is_hit_exactly_once_for_any_size_and_seed(n: int, seed: int) -> None:
    assert np.array_equal(np.sort(shuffled(n, seed)), np.arange(n))


def test_single_places_agree_with_the_whole_and_with_one_key_each() -> None:
    whole = shuffled(1000, 3)
    assert [int(permuted(np.array([i], np.uint64), 1000, key(3))[0]) for i in range(0, 1000, 37)] == whole[::37].tolist()
    several = np.concatenate([key(seed) for seed in range(5)])
    assert permuted(np.full(5, 7, np.uint64), 1000, several).tolist() == [int(shuffled(1000, seed)[7]) for seed in range(5)]


def test_a_size_beyond_memory_costs_nothing() -> None:
    n = 10**12
    places = permuted(np.arange(10_000, dtype=np.uint64), n, key(0))
    assert len(np.unique(places)) == 10_000
    assert int(places.max()) < n
    assert abs(float(places.mean()) / n - 0.5) < 0.02


def test_each_place_is_equally_likely_and_neighbours_part() -> None:
    n, draws = 20, 2000
    table = np.stack([shuffled(n, seed) for seed in range(draws)]).astype(np.int64)
    expected = draws / n
    for column in table.T:  # chi-square, 19 degrees of freedom: 60 is beyond one in 10⁶
        assert ((np.bincount(column, minlength=n) - expected) ** 2 / expected).sum() < 60
    steps = np.bincount((table[:, 1:] - table[:, :-1]).ravel() % n, minlength=n)
    assert steps[0] == 0
    expected = draws
    assert ((steps[1:] - expected) ** 2 / expected).sum() < 60


def test_all_six_orders_of_three_occur_equally_often() -> None:
    draws = 3000
    orders = [tuple(shuffled(3, seed).tolist()) for seed in range(draws)]
    counts = np.array([orders.count(order) for order in set(orders)])
    assert len(counts) == 6
    assert ((counts - draws / 6) ** 2 / (draws / 6)).sum() < 40  # chi-square, 5 degrees of freedom


def test_an_index_outside_is_refused() -> None:
    with pytest.raises(ValueError, match="permutation of 3"):
        permuted(np.array([3], np.uint64), 3, key(0))
