"""One file per verb. Nothing in here imports torch before a verb that needs it runs."""

from firth.cli import complete, data, evaluate, generate, recipes, results, score, tour, train, verify
from firth.cli.app import main

__all__ = ["complete", "data", "evaluate", "generate", "main", "recipes", "results", "score", "tour", "train", "verify"]
