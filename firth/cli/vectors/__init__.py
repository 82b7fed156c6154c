"""The verbs of `firth vectors`, one file per verb."""

from firth.cli.vectors import (
    analogy,
    axis,
    contexts,
    convert,
    cooccur,
    counts,
    evaluate,
    map,
    neighbors,
    pairs,
    phrases,
    similarity,
    train,
)

__all__ = [
    "analogy",
    "axis",
    "contexts",
    "convert",
    "cooccur",
    "counts",
    "evaluate",
    "map",
    "neighbors",
    "pairs",
    "phrases",
    "similarity",
    "train",
]
