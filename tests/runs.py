"""Runs that take a second to train, for the tests of what is done with a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from firth.api import compose, train_recipe
from firth.config import Table
from firth.text.cache import locked

LINES = ("the list is empty.\n", "the list has a name.\n", "a name is in the set.\n", "the café serves naïve 日本語 users 😀.\n")
TEXT = "".join(LINES[n % len(LINES)] for n in range(120))


def recipe_table(kind: str = "char", model: str = "gru", **training: int) -> Table:
    return {
        "data": {"text": TEXT, "valid": 0.1},
        "tokenizer": {"kind": kind} | {"bpe": {"vocab": 290}, "char": {"start": False}}.get(kind, {}),  # without <start>
        "model": {"kind": model, "width": 32} | ({"depth": 1, "attention": {"heads": 2}} if model == "transformer" else {}),
        "training": {"steps": 60, "batch": 8, "context": 24, "rate": 0.01, "device": "cpu"} | training,
        "decoding": {"tokens": 40},
    }


def trained_once(name: str, train: Callable[[Path], object]) -> Path:
    """A folder with runs that nobody changes: `train` makes them in it, once for all workers, whose cache is the same."""
    folder = Path(os.environ["FIRTH_CACHE"]) / "trained" / name
    folder.parent.mkdir(exist_ok=True)
    with locked(folder.with_suffix(".lock")):
        if not folder.exists():
            folder.mkdir()
            train(folder)
    return folder


def _trained(name: str, table: Table) -> Path:
    return trained_once(name, lambda folder: train_recipe(compose(table), folder / name)) / name


@pytest.fixture(scope="session")
def char_run() -> Path:
    return _trained("char", recipe_table())


@pytest.fixture(scope="session")
def transformer_run() -> Path:
    return _trained("transformer", recipe_table(model="transformer"))


@pytest.fixture(scope="session")
def word_run() -> Path:
    return _trained("word", recipe_table("word", context=8))


@pytest.fixture(scope="session")
def bpe_run() -> Path:
    return _trained("bpe", recipe_table("bpe", model="transformer"))
