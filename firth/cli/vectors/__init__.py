"""The verbs of `firth vectors`, one file per verb."""

from firth.cli.vectors import (
    analogy,
    contexts,
    convert,
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
    "contexts",
    "convert",
    "counts",
    "evaluate",
    "map",
    "neighbors",
    "pairs",
    "phrases",
    "similarity",
    "train",
]
