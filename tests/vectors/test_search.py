"""Blocked search finds what a full sort in float64 finds, whatever the size of its blocks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from firth.vectors import search


def drawn(rows: int, width: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((rows, width), dtype=np.float32)


def cosines(vector_Vd: NDArray[np.float32], query_Qd: NDArray[np.float32]) -> NDArray[np.float64]:
    """The oracle: one quotient for each pair, in float64."""
    v, q = vector_Vd.astype(np.float64), query_Qd.astype(np.float64)
    return q @ v.T / np.linalg.norm(q, axis=1)[:, None] / np.linalg.norm(v, axis=1)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_BLOCK", 50)
    monkeypatch.setattr(search, "_QUERIES", 7)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("k", [1, 5, 60, 333])
@pytest.mark.parametrize("queries", [1, 2, 7, 20])
def test_the_k_nearest_are_those_of_a_full_sort(queries: int, k: int) -> None:
    vector_Vd, query_Qd = drawn(333, 16) * 3, drawn(queries, 16, seed=1)
    index_Qk, cosine_Qk = search.top(vector_Vd, search.norms(vector_Vd), query_Qd, k)
    exact_QV = cosines(vector_Vd, query_Qd)
    np.testing.assert_array_equal(index_Qk, np.argsort(-exact_QV, axis=1)[:, :k])
    np.testing.assert_allclose(cosine_Qk, np.take_along_axis(exact_QV, index_Qk, 1), atol=1e-6)


@pytest.mark.usefixtures("small_blocks")
def test_equal_cosines_come_in_order_of_index_in_one_query_and_in_many() -> None:
    vector_Vd = np.ones((400, 3), np.float32)
    vector_Vd[200] = (1, 1, 2)  # one that is better, in the middle
    query_Qd = np.tile(np.float32([[0.0, 0.0, 1.0]]), (9, 1))
    norm_V = search.norms(vector_Vd)
    for queries in (query_Qd, query_Qd[:1]):
        index_Qk, _ = search.top(vector_Vd, norm_V, queries, 5)
        assert index_Qk.tolist() == [[200, 0, 1, 2, 3]] * len(queries)


def test_more_neighbours_than_words_are_all_words() -> None:
    vector_Vd = drawn(4, 3)
    for queries in (1, 3):
        index_Qk, cosine_Qk = search.top(vector_Vd, search.norms(vector_Vd), drawn(queries, 3, seed=2), 100)
        assert index_Qk.shape == cosine_Qk.shape == (queries, 4)
        assert (np.sort(index_Qk) == np.arange(4)).all()


def test_no_query_has_no_answer() -> None:
    index_Qk, _ = search.top(drawn(4, 3), np.ones(4, np.float32), np.empty((0, 3), np.float32), 2)
    assert index_Qk.shape == (0, 2)


def test_a_zero_vector_has_cosine_zero_with_everything() -> None:
    vector_Vd = np.float32([[0, 0], [1, 0], [-1, 0]])
    index_Qk, cosine_Qk = search.top(vector_Vd, search.norms(vector_Vd), np.float32([[2, 0]]), 3)
    assert index_Qk.tolist() == [[1, 0, 2]]
    assert cosine_Qk.tolist() == [[1, 0, -1]]


def test_norms_neither_overflow_nor_vanish() -> None:
    vector_Vd = np.float32([[3e30, 4e30], [3e-30, 4e-30]])
    np.testing.assert_allclose(search.norms(vector_Vd), [5e30, 5e-30], rtol=1e-6)


@pytest.mark.parametrize("k", [0, 1, 3, 40, 5000, 10_000])
def test_best_is_a_stable_sort_cut_off(k: int) -> None:
    score_V = np.random.default_rng(3).integers(0, 500, 10_000).astype(np.float32)  # many are equal
    assert search.best(score_V, k).tolist() == np.argsort(-score_V, kind="stable")[:k].tolist()
