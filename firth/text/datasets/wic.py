"""Word-in-context tasks: pairs of sentences that share a word.

As in MCL-WiC (Martelli et al. 2021), a part is two JSON files: NAME.data, a list of {"id", "sentence1", "start1", "end1",
"sentence2", "start2", "end2"} with the character positions of the word, and NAME.gold, a list of {"id", "tag"} with
"T" for the same sense and "F" for different senses.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth.errors import DataError
from firth.progress import Progress, silent
from firth.text.datasets.download import local
from firth.text.readers.file_decoding import COMPRESSED, whole_text
from firth.text.tokenizers.offsets import Span

TRAIN, DEV = "train", "dev"
_TAGS = {"T": True, "F": False}


@dataclass(frozen=True)
class Place:
    """A word in a sentence."""

    sentence: str
    span: Span

    @property
    def word(self) -> str:
        return self.sentence[slice(*self.span)]


@dataclass(frozen=True)
class WordPair:
    first: Place
    second: Place
    same: bool  # sense


def read_wic(folder: str | Path | None = None, progress: Progress = silent) -> tuple[list[WordPair], list[WordPair]]:
    """The training pairs and the evaluation pairs of a folder, or of the named set "wic"."""
    where = local("wic", progress) if folder is None else Path(folder)
    if not where.is_dir():
        raise DataError(f"{where} is not a folder; expected one with {TRAIN}….data, {TRAIN}….gold, {DEV}….data and {DEV}….gold")
    return tuple(_part(where, part) for part in (TRAIN, DEV))  # type: ignore[return-value]


def _part(folder: Path, part: str) -> list[WordPair]:
    data, gold = (_file(folder, part, suffix) for suffix in (".data", ".gold"))
    tag_of = {record.get("id"): record.get("tag") for record in _records(gold)}
    pairs = [_pair(record, tag_of, f"{data}, pair {n}", gold) for n, record in enumerate(_records(data), start=1)]
    if not pairs:
        raise DataError(f"{data} has no pairs; expected one or more")
    return pairs


def _file(folder: Path, part: str, suffix: str) -> Path:
    """The file whose name begins with the part; it may be compressed."""
    endings = (suffix, *(suffix + packed for packed in COMPRESSED))
    paths = sorted(path for path in folder.iterdir() if path.name.startswith(part) and path.name.endswith(endings))
    if len(paths) != 1:
        there = ", ".join(path.name for path in paths) or "none"
        raise DataError(f"{folder} has {there} matching {part}…{suffix}; expected one file")
    return paths[0]


def _records(path: Path) -> list[dict[str, Any]]:
    try:
        records = json.loads(whole_text(path, lambda done: None))
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}); expected a list of objects") from error
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise DataError(f"{path} is JSON, but not a list of objects; expected one object for each pair")
    return records


def _pair(record: dict[str, Any], tag_of: dict[Any, Any], where: str, gold: Path) -> WordPair:
    tag = tag_of.get(record.get("id"))
    if tag not in _TAGS:
        raise DataError(f'{where} has the id {record.get("id")!r}, whose tag in {gold} is {tag!r}; expected "T" or "F"')
    return WordPair(_place(record, 1, where), _place(record, 2, where), _TAGS[tag])


def _place(record: dict[str, Any], number: int, where: str) -> Place:
    sentence, *places = (record.get(f"{key}{number}") for key in ("sentence", "start", "end"))
    try:
        start, end = (int(str(place)) for place in places)
    except ValueError:
        start = end = 0
    if not isinstance(sentence, str) or not 0 <= start < end <= len(sentence):
        raise DataError(
            f"{where}: start{number} and end{number} are {places[0]!r} and {places[1]!r} of sentence{number} = {sentence!r}; "
            "expected the first character of a word in it, and the one after its last"
        )
    return Place(sentence, (start, end))
