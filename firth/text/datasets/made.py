"""The examples of a data set that has a function for one: drawn with fixed seeds, and kept in the cache as files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from firth.errors import DataError
from firth.text import cache, sealed
from firth.text.data_set import DATA_SETS, PARTS, DataSet

_TRIES = 1000  # draws in a row that repeat an example


def made_parts(entry: DataSet) -> dict[str, Path]:
    """The files of training, validation and test. Another version of the code that makes them has a folder of its own."""
    version = hashlib.sha256(f"{entry.name} {DATA_SETS.origin(entry.name)} {entry.sizes}".encode()).hexdigest()[:16]
    suffix = "conll" if entry.holds == "tagged words" else "jsonl"
    folder = cache.cache_folder() / "made" / version
    paths: dict[str, Path] = {part: folder / f"{part}.{suffix}" for part in PARTS}
    if not all(sealed.whole(path) for path in paths.values()):
        seen: set[str] = set()
        for part, size in reversed(tuple(zip(PARTS, entry.sizes, strict=True))):  # what is held out is drawn first
            sealed.write_text(paths[part], "".join(_lines(entry, Random(f"{entry.name} {part}"), size, seen)))
    return paths


def _lines(entry: DataSet, draw: Random, size: int, seen: set[str]) -> Iterator[str]:
    assert entry.example is not None
    held_out, repeated = frozenset(seen), 0
    while size:
        line = _line(entry, entry.example(draw))
        if line not in held_out:
            seen.add(line)
            size, repeated = size - 1, 0
            yield line
        elif (repeated := repeated + 1) > _TRIES:
            raise DataError(f"the data set {entry.name} has too few different examples. Make its `sizes` smaller.")


def _line(entry: DataSet, example: str | Mapping[str, Any]) -> str:
    record = {"text": example} if isinstance(example, str) else example
    if entry.holds == "tagged words":
        return "".join(f"{word}\t{tag}\n" for word, tag in zip(record["words"], record["tags"], strict=True)) + "\n"
    return json.dumps(record, ensure_ascii=False) + "\n"
