"""Prompts: two tasks in one set of sentence pairs, each named by the first word of its source.

"sentiment: a lovely film" → "good"            the sentences of sst2
"dutch: good morning"      → "goedemorgen"     the sentences of tatoeba-en-nl, which has no test part
"""

from __future__ import annotations

from collections.abc import Iterator

from firth.progress import Progress
from firth.text.data_set import DATA_SETS, Part
from firth.text.datasets import download
from firth.text.holdout import held_out
from firth.text.readers.formats import Record, records
from firth.text.readers.reader import Column

_SENTIMENTS = {"0": "bad", "1": "good"}  # the labels of sst2 as words
_DUTCH = ("en", "nl")


def prompts(part: Part, valid: float, progress: Progress) -> Iterator[Record]:
    """The source and target of each prompt of a part; a share `valid` of the Dutch sentences is held out."""
    for where, (text, label) in sentiments(part, progress):
        yield Record(where, [f"sentiment: {text}", _SENTIMENTS[label]])
    if part != "test":
        whole = list(dutch(progress))
        train, rest = held_out(whole, valid, "pairs", _source) if valid else (whole, [])
        for where, (source, target) in train if part == "train" else rest:
            yield Record(where, [f"dutch: {source}", target])


def sentiments(part: Part, progress: Progress) -> Iterator[Record]:
    """The sentences of a part of sst2, and their labels."""
    entry, folder = DATA_SETS["sst2"], download.local("sst2", progress)
    path = folder / str(getattr(entry, part))
    return records(path, (Column("text"), Column("label", numbers=True)), header=entry.columns)


def dutch(progress: Progress) -> Iterator[Record]:
    """The sentences of tatoeba-en-nl, and their translations."""
    entry, folder = DATA_SETS["tatoeba-en-nl"], download.local("tatoeba-en-nl", progress)
    assert entry.pairs is not None
    path = folder / entry.pairs.splits[0].train
    for where, texts in records(path, [Column(side) for side in _DUTCH], header=entry.pairs.sides):
        yield Record(where, [text.replace("\n", " ").strip() for text in texts])


def _source(record: Record) -> str:
    return record.texts[0]
