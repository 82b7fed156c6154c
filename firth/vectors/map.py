"""Project word vectors to two or three dimensions with PCA or t-SNE.

    PCA: x_Nd minus its mean = U S Vᵀ; the coordinates are the first columns of U S

Vectors are normalised to length 1 first, so that distance on the map reflects cosine similarity.
Letters: N words, d dimension, k dimensions of the map.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError, FirthError
from firth.vectors.wordvectors import Neighbors, WordVectors

Projection = Literal["pca", "tsne"]


@dataclass(frozen=True)
class WordMap:
    words: list[str]
    point_Nk: NDArray[np.float64]
    projection: Projection
    explained: tuple[float, ...] = ()  # PCA: the share of the variance that each axis explains


def word_map(
    vectors: WordVectors, words: Sequence[str], projection: Projection = "pca", dimensions: int = 2, seed: int | None = None
) -> WordMap:
    """The words as points in two or three dimensions. t-SNE starts from the points of PCA, or from random ones if there is a
    `seed`: a pattern that several seeds show does not depend on the start."""
    chosen = list(dict.fromkeys(words))
    if dimensions not in (2, 3):
        raise ConfigError(f"dimensions is {dimensions}; expected 2 or 3")
    units = [vectors.unit(word) for word in chosen]
    if len(chosen) <= dimensions:
        raise ConfigError(f"{len(chosen)} words are too few for {dimensions} dimensions. Give at least {dimensions + 1} words")
    unit_Nd = np.stack(units).astype(np.float64)
    match projection:
        case "pca":
            point_Nk, explained = pca(unit_Nd, dimensions)
            return WordMap(chosen, point_Nk, "pca", explained)
        case "tsne":
            return WordMap(chosen, _tsne(unit_Nd, dimensions, seed), "tsne")
    raise ConfigError(f'unknown projection "{projection}"; expected pca or tsne')


def nearest_on_map(vectors: WordVectors, words: Sequence[str], topn: int = 5) -> list[Neighbors]:
    """For each of the words, those of the others with the largest cosine: of the vectors themselves, not of their points. Ties go
    to the earlier word."""
    unit_Nd = np.stack([vectors.unit(word) for word in words]).astype(np.float64)
    cosine_NN = unit_Nd @ unit_Nd.T
    np.fill_diagonal(cosine_NN, -np.inf)
    order_Nk = np.argsort(-cosine_NN, axis=1, kind="stable")[:, : min(topn, len(words) - 1)]
    return [[(words[n], float(cosine_NN[row, n])) for n in order_k] for row, order_k in enumerate(order_Nk.tolist())]


def pca(x_Nd: NDArray[np.float64], dimensions: int) -> tuple[NDArray[np.float64], tuple[float, ...]]:
    """The coordinates along the principal components, and the share of the variance that each component explains.

    The sign of a component is arbitrary; its largest entry is made positive, so that a map looks the same every time."""
    centred_Nd = x_Nd - x_Nd.mean(0)
    u_Nr, s_r, v_rd = np.linalg.svd(centred_Nd, full_matrices=False)
    kept = min(dimensions, len(s_r))
    sign_k = np.sign(v_rd[np.arange(kept), np.abs(v_rd[:kept]).argmax(1)])
    point_Nk = np.zeros((len(x_Nd), dimensions))
    point_Nk[:, :kept] = u_Nr[:, :kept] * s_r[:kept] * sign_k
    variance = float((s_r**2).sum()) or 1.0
    shares = [float(s**2) / variance for s in s_r[:kept]]
    return point_Nk, (*shares, *[0.0] * (dimensions - kept))


def _tsne(unit_Nd: NDArray[np.float64], dimensions: int, seed: int | None) -> NDArray[np.float64]:
    """scikit-learn's t-SNE (van der Maaten & Hinton 2008) with perplexity 30, or less if there are too few words for it."""
    try:
        manifold: Any = importlib.import_module("sklearn.manifold")
    except ImportError:
        raise FirthError('t-SNE needs scikit-learn. Install it with pip install "firth[map]", or use PCA') from None
    perplexity = min(30.0, (len(unit_Nd) - 1) / 3)
    start = pca(unit_Nd, dimensions)[0] if seed is None else np.random.default_rng(seed).normal(size=(len(unit_Nd), dimensions))
    start *= 1e-4 / max(float(start[:, 0].std()), 1e-12)  # scikit-learn's own scale; if it is too large, no point moves
    fitted = manifold.TSNE(dimensions, perplexity=perplexity, init=start.astype(np.float32), random_state=0)
    return np.asarray(fitted.fit_transform(unit_Nd.astype(np.float32)), np.float64)
