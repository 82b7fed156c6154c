"""Schemes of tags that mark spans, and the conversion of one to another.

A tag is O or has a prefix, a hyphen and the type of the span. In IOB1, B only separates a span from one of the same type before
it; in IOB2, it begins every span; BIOES (IOBES) also marks the last word of a span with E and a span of one word with S, which
BILOU calls L and U. The spans of any of them are found as by conlleval, which papers report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firth.errors import DataError
from firth.text.config import TagScheme
from firth.text.readers.conll import Sentence

_OF_BILOU = {"L": "E", "U": "S"}
_PREFIXES = ("B", "I", "E", "S", *_OF_BILOU)
_ALONE: dict[TagScheme, str] = {"iob2": "B", "bioes": "S"}
_LAST: dict[TagScheme, str] = {"iob2": "I", "bioes": "E"}


def in_scheme(sentence: Sentence, scheme: TagScheme | None) -> Sentence:
    """The sentence with its spans marked by another scheme; None leaves its tags as they are."""
    if scheme is None:
        return sentence
    marked = [_parts(sentence, place) for place in range(len(sentence.tags))]
    tags = ["O"] * len(marked)
    for first, end in _spans(marked):
        kind = marked[first][1]
        prefixes = ["B", *"I" * (end - first - 2), _LAST[scheme]] if end - first > 1 else [_ALONE[scheme]]
        tags[first:end] = [f"{prefix}-{kind}" for prefix in prefixes]
    return sentence._replace(tags=tuple(tags))


def _parts(sentence: Sentence, place: int) -> tuple[str, str]:
    """Prefix and type of a tag; both empty for O."""
    tag = sentence.tags[place]
    prefix, hyphen, kind = tag.partition("-")
    if tag == "O":
        return "", ""
    if prefix not in _PREFIXES or not (hyphen and kind):
        raise DataError(
            f'{sentence.path}:{sentence.lines[place]} is tagged "{tag}", which marks no span; expected O, or a tag such as '
            "B-PER. Remove data.tag_scheme."
        )
    return _OF_BILOU.get(prefix, prefix), kind


def _spans(marked: Sequence[tuple[str, str]]) -> Iterator[tuple[int, int]]:
    """Where the spans begin and end: a span begins at B and S, after E and S, after O, and where the type changes."""
    first = None
    for place, (prefix, kind) in enumerate([*marked, ("", "")]):
        if first is not None and (kind != marked[place - 1][1] or prefix in ("", "B", "S") or marked[place - 1][0] in ("E", "S")):
            yield first, place
            first = None
        if prefix and first is None:
            first = place
