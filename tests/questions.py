"""Questions so plain that a small model learns them in seconds: where does who live; as SQuAD writes them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from runs import trained_once

from firth.api import compose, train_recipe
from firth.config import Table

NAMES = ("Anna", "Bert", "Carl", "Dora", "Emil")
TOWNS = ("Rome", "Oslo", "Bern", "Kyiv", "New York")


def record(names: tuple[str, str], towns: tuple[str, str], asked: int) -> dict[str, Any]:
    context = " ".join(f"{name} lives in {town} ." for name, town in zip(names, towns, strict=True))
    return {
        "id": f"{names[asked]} of {'-'.join(names)}, {'-'.join(towns)}",
        "context": context,
        "question": f"Where does {names[asked]} live ?",
        "answers": {"text": [towns[asked]], "answer_start": [context.index(towns[asked])]},
    }


RECORDS = [
    record(names, towns, asked)
    for names in itertools.permutations(NAMES, 2)
    for towns in itertools.permutations(TOWNS, 2)
    for asked in (0, 1)
]


def write_questions(path: Path, records: list[dict[str, Any]] = RECORDS) -> Path:
    """jsonl, or SQuAD's nested json, by the suffix."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
        return path
    paragraphs = []
    for context, asked in itertools.groupby(records, key=lambda one: one["context"]):
        qas = [{"id": one["id"], "question": one["question"], "answers": _listed(one["answers"])} for one in asked]
        paragraphs.append({"context": context, "qas": qas})
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "towns", "paragraphs": paragraphs}]}), encoding="utf-8")
    return path


def _listed(answers: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [{"text": text, "answer_start": start} for text, start in zip(*answers.values(), strict=True)]


def answer_table(path: Path, **training: Any) -> Table:
    """120 steps, which it needs, unless told otherwise."""
    usual = {"steps": 120, "batch": 32, "context": 32, "rate": 0.005, "device": "cpu", "evaluate_every": 60}
    return {
        "data": {"path": str(path), "valid": 0.1},
        "tokenizer": {"kind": "word"},
        "model": {"family": "encoder", "kind": "transformer", "width": 32, "depth": 2, "heads": 2, "segments": 2},
        "objective": {"kind": "answer"},
        "training": usual | training,
    }


def trained_on_questions() -> Path:
    """A run that answers them."""
    return trained_once("questions", _train) / "run"


def _train(folder: Path) -> None:
    train_recipe(compose(answer_table(write_questions(folder / "q.jsonl"))), folder / "run")
