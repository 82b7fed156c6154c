"""Word in Context: does a word have the same sense in two sentences? (Pilehvar & Camacho-Collados 2019)

The answer is "same" if cos(x, y) ≥ θ, with x and y the word's two contextual vectors. θ and the layer of the vectors are chosen
for the highest accuracy on the training pairs; nothing else is learned. The accuracy is reported on other pairs.
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
class PairCosines:
    """The cosine of each pair, by layer, and whether the sense is the same."""

    cosine: Mapping[int, Floats]  # layer → N
    same_N: Bools


@dataclass(frozen=True)
class WicMeasures:
    accuracy: float  # fraction of the pairs classified correctly, with the threshold and layer chosen on the training pairs
    threshold: float
    layer: int
    pairs: int
    train_accuracy: float  # with the same threshold and layer
    train_pairs: int
    static_accuracy: float  # of the static embeddings (layer 0), with their own threshold
    static_threshold: float
    majority: float  # accuracy of always giving the more frequent answer of the training pairs


def measure(train: PairCosines, dev: PairCosines) -> WicMeasures:
    """Layer 0 is the static baseline. The best layer above it is chosen, or layer 0 if there is no other."""
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
    """The θ with the highest accuracy, and that accuracy. θ lies halfway between two neighbouring cosines, or beyond all of them;
    ties go to the lowest."""
    cosine, same = np.asarray(cosine_N, np.float64), np.asarray(same_N, bool)
    if not len(cosine):
        raise DataError("there are no pairs to choose a threshold by; give at least one")
    order = np.argsort(cosine, kind="stable")
    value, first = np.unique(cosine[order], return_index=True)
    # With θ between values i − 1 and i, all pairs from first[i] on are classified as "same". Correct are those of them that are
    # the same, and the pairs before them that are not.
    different = np.concatenate(([0], np.cumsum(~same[order])))
    right = different + same.sum() - np.concatenate(([0], np.cumsum(same[order])))
    cut = np.append(first, len(cosine))
    threshold = np.concatenate(([value[0] - 1], (value[1:] + value[:-1]) / 2, [value[-1] + 1]))
    best = int(np.argmax(right[cut]))
    return float(threshold[best]), float(right[cut][best] / len(cosine))


def accuracy(cosine_N: ArrayLike, same_N: ArrayLike, threshold: float) -> float:
    return float(((np.asarray(cosine_N) >= threshold) == np.asarray(same_N, bool)).mean())


def cosines(x_Nd: ArrayLike, y_Nd: ArrayLike) -> Floats:
    """cos(x_n, y_n) per row, rounded so that equal vectors give exactly 1: a threshold would notice the last bit."""
    cosine_n: Floats = np.einsum("nd,nd->n", units(x_Nd), units(y_Nd)).round(12)
    return cosine_n


def units(x_Nd: ArrayLike) -> Floats:
    """Rows scaled to length 1, in float64. A zero row stays zero, so its cosine with everything is 0."""
    x = np.asarray(x_Nd, np.float64)
    length_N1 = np.linalg.norm(x, axis=-1, keepdims=True)
    unit: Floats = x / np.where(length_N1 == 0, 1, length_N1)
    return unit
