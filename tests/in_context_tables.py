"""Recipes of learning in context that take a second."""

from __future__ import annotations

from typing import Any

from firth.config import Table

MODELS: dict[str, Table] = {
    "transformer": {"kind": "transformer", "width": 16, "depth": 2, "heads": 2},
    "lstm": {"kind": "lstm", "width": 16},
}


def swap_table(kind: str = "transformer", **training: Any) -> Table:
    return {
        "data": {"name": "swaps", "letters": 4, "word_length": 3, "examples": 3, "count": 200},
        "model": {"family": "language"} | MODELS[kind],
        "objective": {"kind": "in-context"},
        "training": {"steps": 6, "batch": 4, "context": 31, "rate": 0.01, "device": "cpu", "log_every": 1} | training,
    }


def linear_table(kind: str = "transformer", **training: Any) -> Table:
    return {
        "data": {"name": "linear", "dimensions": 2, "examples": 4, "count": 200},
        "model": {"family": "language"} | MODELS[kind],
        "objective": {"kind": "in-context-regression"},
        "training": {"steps": 6, "batch": 4, "context": 9, "rate": 0.01, "device": "cpu", "log_every": 1} | training,
    }
