"""Labelled texts so plain that a classifier learns them in a second, as the files people have."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from runs import trained_once

from firth.api import compose, train_recipe
from firth.config import Table

GOOD = ("a great film", "what a lovely story", "great great fun", "lovely")
BAD = ("a dull film", "what an awful story", "dull dull", "awful")
REVIEWS = [(text, label) for label, texts in (("good", GOOD), ("bad", BAD)) for text in texts] * 10
SORTED = sorted(REVIEWS, key=lambda review: review[1])


def write(path: Path, reviews: list[tuple[str, str]] = SORTED, header: tuple[str, str] | None = ("text", "label")) -> Path:
    """csv, tsv or jsonl, by the suffix; sorted by label, unless told otherwise."""
    if path.suffix == ".jsonl":
        assert header is not None
        text = "".join(json.dumps(dict(zip(header, review, strict=True))) + "\n" for review in reviews)
    elif path.suffix == ".tsv":
        text = "".join("\t".join(row) + "\n" for row in ([header] if header else []) + reviews)
    else:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows(([header] if header else []) + reviews)
        text = buffer.getvalue()
    path.write_text(text, encoding="utf-8")
    return path


def classifier_table(path: Path, **training: int | float) -> Table:
    return {
        "data": {"path": str(path), "valid": 0.2},
        "tokenizer": {"kind": "word", "lower": True},
        "model": {"family": "encoder", "kind": "average", "width": 6, "dropout": 0.1},
        "objective": {"kind": "classification"},
        "training": {"steps": 60, "batch": 8, "rate": 0.05, "device": "cpu", "evaluate_every": 20} | training,
    }


def trained_on_reviews() -> Path:
    """A run that tells them apart."""
    return trained_once("reviews", _train) / "run"


def _train(folder: Path) -> None:
    train_recipe(compose(classifier_table(write(folder / "reviews.csv"))), folder / "run")
