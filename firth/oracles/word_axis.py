"""The place of words on an axis between two word lists: float64 loops over plain lists."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def places(vectors: Mapping[str, Sequence[float]], positive: Sequence[str], negative: Sequence[str]) -> dict[str, float]:
    """cos(w, a) of every word, with a = mean of the positive unit vectors − mean of the negative ones."""
    plus, minus = _mean([_unit(vectors[word]) for word in positive]), _mean([_unit(vectors[word]) for word in negative])
    axis = _unit([p - m for p, m in zip(plus, minus, strict=True)])
    return {word: math.fsum(x * a for x, a in zip(_unit(vector), axis, strict=True)) for word, vector in vectors.items()}


def _unit(vector: Sequence[float]) -> list[float]:
    length = math.sqrt(math.fsum(float(x) ** 2 for x in vector))
    return [float(x) / length for x in vector]


def _mean(vectors: Sequence[Sequence[float]]) -> list[float]:
    return [math.fsum(column) / len(vectors) for column in zip(*vectors, strict=True)]
