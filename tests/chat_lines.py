"""Conversations about the names of digits: the second question can only be answered with the first in mind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runs import trained_once

from firth.api import compose, train_recipe
from firth.config import Table

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def chat(*turns: tuple[str, str], system: str | None = None, skill: str | None = None) -> dict[str, Any]:
    """The line of one conversation: (question, answer), …"""
    opening = [] if system is None else [{"role": "system", "content": system}]
    mark = {} if skill is None else {"skill": skill}
    rounds = [
        message
        for question, answer in turns
        for message in ({"role": "user", "content": question}, {"role": "assistant", "content": answer, **mark})
    ]
    return {"messages": opening + rounds}


def digits() -> list[dict[str, Any]]:
    """name 3 → three · again → three · and 4 → four"""
    return [
        chat((f"name {a}", NAMES[a]), ("again", NAMES[a]), (f"and {b}", NAMES[b]), skill="names")
        for a in range(10)
        for b in range(10)
    ]


def write_chats(path: Path, lines: list[dict[str, Any]] | None = None) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines or digits()), encoding="utf-8")
    return path


def chat_table(path: Path, kind: str = "transformer", **training: Any) -> Table:
    model: Table = {"family": "language", "kind": kind, "width": 32, "depth": 1}
    if kind == "transformer":
        model |= {"heads": 2, "depth": 2}
    return {
        "data": {"path": str(path), "valid": 0.1},
        "tokenizer": {"kind": "word"},
        "model": model,
        "objective": {"kind": "conversation"},
        "training": {"steps": 80, "batch": 16, "context": 32, "rate": 0.01, "device": "cpu", "log_every": 20} | training,
        "decoding": {"tokens": 4, "temperature": 0.0},
    }


def trained_on_digits() -> Path:
    """A run that holds these conversations."""
    return trained_once("chats", _train) / "digits"


def _train(folder: Path) -> None:
    train_recipe(compose(chat_table(write_chats(folder / "chats.jsonl"))), folder / "digits")
