"""Exact nearest neighbours by cosine similarity.

    cos(q, v) = q·v / (|q| |v|)

A single query is a matrix–vector product, as fast as reading the vectors once. Many queries are computed in blocks that fit the
processor's cache; of each block, only scores above a query's current k-th best are considered further. Equal cosines are
ordered by index, so the result does not depend on the block size.

Letters: V words, d dimension, Q queries, k neighbours, B words of a block, N candidates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]

_BLOCK = 4096  # words per block: large enough for a fast matrix product, with scores that still fit the last-level cache
_QUERIES = 1024
_GROUP = 64  # scores per group, of which only the maximum is considered first


def norms(vector_Vd: Floats) -> Floats:
    """|v| of every row, with 0 replaced by 1, so that a zero vector has cosine 0 with everything.

    Squares are summed in float64: the square of 1e20 overflows float32."""
    norm_V = np.empty(len(vector_Vd), np.float32)
    for low in range(0, len(vector_Vd), _BLOCK):
        block_Bd = vector_Vd[low : low + _BLOCK].astype(np.float64)
        norm_V[low : low + _BLOCK] = np.sqrt(np.vecdot(block_Bd, block_Bd))
    norm_V[norm_V == 0] = 1
    return norm_V


def units(vector_Vd: Floats, norm_V: Floats) -> Floats:
    return vector_Vd / norm_V[:, None]


def top(vector_Vd: Floats, norm_V: Floats, query_Qd: Floats, k: int) -> tuple[Ids, Floats]:
    """index_Qk and cosine_Qk of the min(k, V) rows nearest to each query, nearest first."""
    query_Qd = np.ascontiguousarray(query_Qd, np.float32)
    query_Qd = units(query_Qd, norms(query_Qd))
    k = min(k, len(vector_Vd))
    if len(query_Qd) == 1:
        score_V = vector_Vd @ query_Qd[0]
        score_V /= norm_V
        index_k = best(score_V, k)
        return index_k[None], score_V[index_k][None]
    return _top_of_many(vector_Vd, norm_V, query_Qd, k)


def best(score_V: Floats, k: int) -> Ids:
    """The indices of the k largest scores, largest first; ties are ordered by index.

    No score below the k-th largest group maximum can be among the k largest, so almost all scores are skipped."""
    V = len(score_V)
    if k < 1:
        return np.empty(0, np.int64)
    if k * _GROUP < V:
        groups = V // _GROUP
        peak_G = score_V[: groups * _GROUP].reshape(_GROUP, groups).max(0)
        least = np.partition(peak_G, groups - k)[groups - k]
    else:
        least = np.partition(score_V, V - k)[V - k]
    index_N = np.flatnonzero(score_V >= least)
    return index_N[np.lexsort((index_N, -score_V[index_N]))[:k]]


def _top_of_many(vector_Vd: Floats, norm_V: Floats, query_Qd: Floats, k: int) -> tuple[Ids, Floats]:
    Q, V, size = len(query_Qd), len(vector_Vd), max(_BLOCK, 4 * k)
    index_Qk, cosine_Qk = np.empty((Q, k), np.int64), np.full((Q, k), -np.inf, np.float32)
    for low in range(0, V if k else 0, size):
        unit_Bd = units(vector_Vd[low : low + size], norm_V[low : low + size])
        for first in range(0, Q, _QUERIES):
            some = slice(first, first + _QUERIES)
            score_QB = query_Qd[some] @ unit_Bd.T
            # Only strictly better than the k-th: of equal cosines, the earlier index is already in the list. The first block
            # starts with an empty list, so there its own k-th best is included.
            hopeful_QB = score_QB > cosine_Qk[some, -1:] if low else score_QB >= np.partition(score_QB, -k, axis=1)[:, -k, None]
            place_N = np.flatnonzero(hopeful_QB)  # flat, because np.nonzero on two axes is slow
            row_N, column_N = np.divmod(place_N, len(unit_Bd))
            _keep(index_Qk[some], cosine_Qk[some], row_N, low + column_N, score_QB.ravel()[place_N], merge=low > 0)
    return index_Qk, cosine_Qk


def _keep(index_Qk: Ids, cosine_Qk: Floats, row_N: Ids, index_N: Ids, cosine_N: Floats, merge: bool = True) -> None:
    """Merge the candidates (row, index, cosine) into the lists of their rows, and keep the k best of each row, in order."""
    k = index_Qk.shape[1]
    rows = np.unique(row_N)
    if merge:
        row_N = np.concatenate((np.repeat(rows, k), row_N))
        index_N = np.concatenate((index_Qk[rows].ravel(), index_N))
        cosine_N = np.concatenate((cosine_Qk[rows].ravel(), cosine_N))
    order = np.lexsort((index_N, -cosine_N, row_N))
    first_R = np.searchsorted(row_N[order], rows)  # where the candidates of each row begin
    chosen_Rk = order[first_R[:, None] + np.arange(k)]
    index_Qk[rows], cosine_Qk[rows] = index_N[chosen_Rk], cosine_N[chosen_Rk]
