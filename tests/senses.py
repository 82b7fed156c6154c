"""Pairs of sentences with the word "list", as the files of word-in-context tasks have them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

Pair = tuple[str, str, bool]
PAIRS: list[Pair] = [
    ("the list is empty.", "in the list", True),
    ("a name is in the list", "the list has a name.", False),
    ("list a list", "the list", True),  # the second one
    ("a list is a list", "list", False),
]


def write_wic(folder: Path, pairs: Sequence[Pair] = PAIRS, word: str = "list", *, first: bool = False) -> Path:
    """The same pairs to train and to report on; the word is the last one of its form in each sentence, or the `first`."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "dev"):
        data, gold = [], []
        for n, (one, other, same) in enumerate(pairs):
            places = [_place(text, word, first) for text in (one, other)]
            data.append({"id": f"{part}.{n}", "sentence1": one, "sentence2": other} | _named(places, len(word)))
            gold.append({"id": f"{part}.{n}", "tag": "T" if same else "F"})
        (folder / f"{part}.en-en.wic.data").write_text(json.dumps(data), encoding="utf-8")
        (folder / f"{part}.en-en.wic.gold").write_text(json.dumps(gold), encoding="utf-8")
    return folder


def _place(text: str, word: str, first: bool) -> int:
    start = text.find(word) if first else text.rfind(word)
    return max(start, len(text) - len(text.lstrip()))  # the first word where it is not there


def _named(places: Sequence[int], length: int) -> dict[str, int]:
    starts = {f"start{n}": place for n, place in enumerate(places, start=1)}
    return starts | {f"end{n}": place + length for n, place in enumerate(places, start=1)}
