"""One file per verb. Nothing in here imports torch before a verb that needs it runs."""

from firth.cli import (
    align,
    classify,
    complete,
    data,
    evaluate,
    generate,
    recipes,
    results,
    score,
    tour,
    train,
    translate,
    vectors,
    verify,
)
from firth.cli.app import main

__all__ = [
    "align",
    "classify",
    "complete",
    "data",
    "evaluate",
    "generate",
    "main",
    "recipes",
    "results",
    "score",
    "tour",
    "train",
    "translate",
    "vectors",
    "verify",
]
