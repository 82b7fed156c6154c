"""The verbs of `firth vectors`, one file per verb."""
# ruff: noqa: F401

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
