"""Word vectors on paper: PCA and t-SNE to two or three dimensions, as plain numbers.

    PCA: x_Nd minus its mean = U S Vᵀ; the coordinates are the first columns of U S

Vectors are taken at length 1, so that nearness on the map is nearness by cosine. N words · d width · k dimensions of the map
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from firth.errors import ConfigError, FirthError
from firth.vectors.wordvectors import WordVectors

Projection = Literal["pca", "tsne"]


@dataclass(frozen=True)
class WordMap:
    words: list[str]
    point_Nk: NDArray[np.float64]
    projection: Projection
    explained: tuple[float, ...] = ()  # PCA: the share of the variance that each axis shows


def word_map(
    vectors: WordVectors, words: Sequence[str], projection: Projection = "pca", dimensions: int = 2, seed: int = 0
) -> WordMap:
    """The words as points of a plane or of space; `seed` is for t-SNE alone."""
    chosen = list(dict.fromkeys(words))
    if dimensions not in (2, 3):
        raise ConfigError(f"a map of {dimensions} dimensions; expected 2 or 3")
    if len(chosen) <= dimensions:
        raise ConfigError(f"{len(chosen)} words for a map of {dimensions} dimensions; give at least {dimensions + 1}")
    unit_Nd = np.stack([vectors.unit(word) for word in chosen]).astype(np.float64)
    match projection:
        case "pca":
            point_Nk, explained = pca(unit_Nd, dimensions)
            return WordMap(chosen, point_Nk, "pca", explained)
        case "tsne":
            return WordMap(chosen, _tsne(unit_Nd, dimensions, seed), "tsne")
    raise ConfigError(f'there is no projection "{projection}"; expected pca or tsne')


def pca(x_Nd: NDArray[np.float64], dimensions: int) -> tuple[NDArray[np.float64], tuple[float, ...]]:
    """The coordinates along the directions of largest variance, and the share of all variance that each of them has.

    A direction's sign is free; the one whose largest entry is positive is taken, so that a map looks the same every time."""
    centred_Nd = x_Nd - x_Nd.mean(0)
    u_Nr, s_r, v_rd = np.linalg.svd(centred_Nd, full_matrices=False)
    kept = min(dimensions, len(s_r))
    sign_k = np.sign(v_rd[np.arange(kept), np.abs(v_rd[:kept]).argmax(1)])
    point_Nk = np.zeros((len(x_Nd), dimensions))
    point_Nk[:, :kept] = u_Nr[:, :kept] * s_r[:kept] * sign_k
    variance = float((s_r**2).sum()) or 1.0
    shares = [float(s**2) / variance for s in s_r[:kept]]
    return point_Nk, (*shares, *[0.0] * (dimensions - kept))


def _tsne(unit_Nd: NDArray[np.float64], dimensions: int, seed: int) -> NDArray[np.float64]:
    """van der Maaten & Hinton 2008, by scikit-learn; a perplexity of 30, or less where there are too few words for it."""
    try:
        manifold: Any = importlib.import_module("sklearn.manifold")
    except ImportError:
        raise FirthError('t-SNE needs scikit-learn: pip install "firth[map]"; PCA needs nothing') from None
    perplexity = min(30.0, (len(unit_Nd) - 1) / 3)
    start = pca(unit_Nd, dimensions)[0]
    start *= 1e-4 / max(float(start[:, 0].std()), 1e-12)  # as scikit-learn scales its own; too large, and nothing moves
    fitted = manifold.TSNE(dimensions, perplexity=perplexity, init=start.astype(np.float32), random_state=seed)
    return np.asarray(fitted.fit_transform(unit_Nd.astype(np.float32)), np.float64)
