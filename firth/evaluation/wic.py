"""Word in context: has a word the same sense in two sentences? (Pilehvar & Camacho-Collados 2019)

Nothing is learned but one number: "the same" is said where cos(x, y) ≥ θ, with x and y the word's two contextual vectors. θ and
the layer that they come from are those that are right most often on the training pairs; what is reported is of other pairs.
Letters: N pairs, d width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firth.errors import DataError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Pairs:
    """cos of each pair, by layer, and whether the sense is the same."""

    cosine: Mapping[int, Floats]  # layer → N
    same_N: Bools


@dataclass(frozen=True)
class WicMeasures:
    accuracy: float  # share of the pairs that are told right, by threshold and layer of the training pairs
    threshold: float
    layer: int
    pairs: int
    train_accuracy: float  # of the same threshold and layer
    train_pairs: int
    static_accuracy: float  # of the embedding, which knows no context, with a threshold of its own
    static_threshold: float
    majority: float  # share of the answer that is more frequent among the training pairs


def measure(train: Pairs, dev: Pairs) -> WicMeasures:
    """Layer 0 is the static baseline; the best of those above it is chosen, or itself where there are none."""
    fitted = {layer: best_threshold(cosine_N, train.same_N) for layer, cosine_N in train.cosine.items()}
    layer = max((n for n in fitted if n or len(fitted) == 1), key=lambda n: fitted[n][1])
    threshold, train_accuracy = fitted[layer]
    usual = bool(train.same_N.mean() >= 0.5)
    return WicMeasures(
        accuracy=accuracy(dev.cosine[layer], dev.same_N, threshold),
        threshold=threshold,
        layer=layer,
        pairs=len(dev.same_N),
        train_accuracy=train_accuracy,
        train_pairs=len(train.same_N),
        static_accuracy=accuracy(dev.cosine[0], dev.same_N, fitted[0][0]),
        static_threshold=fitted[0][0],
        majority=float((dev.same_N == usual).mean()),
    )


def best_threshold(cosine_N: ArrayLike, same_N: ArrayLike) -> tuple[float, float]:
    """θ with the most right answers among the pairs, and their share: θ stands in the middle between two cosines that differ, or
    beyond all of them; of several that are equally good, the lowest."""
    cosine, same = np.asarray(cosine_N, np.float64), np.asarray(same_N, bool)
    if not len(cosine):
        raise DataError("there are no pairs to choose a threshold by; expected one or more")
    order = np.argsort(cosine, kind="stable")
    value, first = np.unique(cosine[order], return_index=True)
    # With θ between values i − 1 and i, all pairs from first[i] on are called the same: right are those of them that are, and
    # those before that are not.
    different = np.concatenate(([0], np.cumsum(~same[order])))
    right = different + same.sum() - np.concatenate(([0], np.cumsum(same[order])))
    cut = np.append(first, len(cosine))
    threshold = np.concatenate(([value[0] - 1], (value[1:] + value[:-1]) / 2, [value[-1] + 1]))
    best = int(np.argmax(right[cut]))
    return float(threshold[best]), float(right[cut][best] / len(cosine))


def accuracy(cosine_N: ArrayLike, same_N: ArrayLike, threshold: float) -> float:
    return float(((np.asarray(cosine_N) >= threshold) == np.asarray(same_N, bool)).mean())


def cosines(x_Nd: ArrayLike, y_Nd: ArrayLike) -> Floats:
    """cos(x_n, y_n), row by row; of equal vectors 1, not 1 but for the last bit, which a threshold would hear."""
    found: Floats = np.einsum("nd,nd->n", units(x_Nd), units(y_Nd)).round(12)
    return found


def units(x_Nd: ArrayLike) -> Floats:
    """Rows of length 1, in float64; a row of zeros stays one, so that its cosine with everything is 0."""
    x = np.asarray(x_Nd, np.float64)
    length_N1 = np.linalg.norm(x, axis=-1, keepdims=True)
    unit: Floats = x / np.where(length_N1 == 0, 1, length_N1)
    return unit
