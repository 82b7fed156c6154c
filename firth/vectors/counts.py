"""One-hot and count vectors of words and documents, and how to compare them. Nothing is learned here.

x·y = Σ_i x_i y_i        |x|_p = (Σ_i |x_i|^p)^(1/p)        |x|_∞ = max_i |x_i|        cos(x, y) = x·y / (|x|_2 |y|_2)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firth.errors import ConfigError, DataError, did_you_mean

Vector = NDArray[np.float64]


def vocabulary_of(documents: Sequence[str]) -> list[str]:
    """The distinct words of the documents, in order of first occurrence."""
    return list(dict.fromkeys(word for document in documents for word in document.split()))


def one_hot(word: str, vocabulary: Sequence[str]) -> Vector:
    """1 at the index of the word, 0 elsewhere: any two different words are orthogonal."""
    if word not in vocabulary:
        raise DataError(f'"{word}" is not in the vocabulary.{did_you_mean(word, vocabulary)}')
    return np.array([float(word == other) for other in vocabulary])


def occurrences(document: str, vocabulary: Sequence[str]) -> Vector:
    """The count of each vocabulary word in the document: the sum of the one-hot vectors. Other words are ignored."""
    words = document.split()
    return np.array([float(words.count(word)) for word in vocabulary])


def dot(x: ArrayLike, y: ArrayLike) -> float:
    a, b = _pair(x, y)
    return float(a @ b)


def norm(x: ArrayLike, p: float = 2) -> float:
    """p = 2 Euclid, 1 Manhattan, ∞ the largest coordinate."""
    if not p >= 1:
        raise ConfigError(f"p is {p}; expected p ≥ 1 or infinity, because the triangle inequality fails below 1")
    size = np.abs(np.asarray(x, np.float64))
    largest = float(size.max(initial=0.0))
    if p == math.inf or largest == 0:
        return largest
    return largest * float(np.sum((size / largest) ** p) ** (1 / p))  # scale first: 1e200 squared overflows


def distance(x: ArrayLike, y: ArrayLike, p: float = 2) -> float:
    """|x − y|_p."""
    a, b = _pair(x, y)
    return norm(a - b, p)


def cosine(x: ArrayLike, y: ArrayLike) -> float:
    """cos(x, y). A zero vector has no direction; its cosine with anything is 0."""
    a, b = _pair(x, y)
    lengths = norm(a), norm(b)
    return 0.0 if 0 in lengths else float((a / lengths[0]) @ (b / lengths[1]))


def _pair(x: ArrayLike, y: ArrayLike) -> tuple[Vector, Vector]:
    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise ConfigError(f"the vectors have shapes {a.shape} and {b.shape}; expected two vectors of the same length")
    return a, b
