"""Running text in pieces that fit in memory, cut where cutting does not change its tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

PIECE = 1 << 20  # characters of the largest piece


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text; `ends_document` is true for the last piece of each document."""

    text: str
    ends_document: bool


def pieces_of_text(text: str) -> Iterator[Piece]:
    """One document. An empty text yields nothing."""
    previous: str | None = None
    for part in slices(text, PIECE):
        if previous is not None:
            yield Piece(previous, ends_document=False)
        previous = part
    if previous is not None:
        yield Piece(previous, ends_document=True)


def pieces_of_chunks(chunks: Iterable[str]) -> Iterator[Piece]:
    """`pieces_of_text` for one document that arrives in chunks."""
    rest = ""
    for chunk in chunks:
        rest += chunk
        while len(rest) > PIECE:  # not >=: the last piece must not be empty
            at = cut(rest, PIECE)
            yield Piece(rest[:at], ends_document=False)
            rest = rest[at:]
    if rest:
        yield Piece(rest, ends_document=True)


def pieces_of_texts(texts: Iterable[str]) -> Iterator[Piece]:
    """Each text is a document."""
    for text in texts:
        yield from pieces_of_text(text)


def batches(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """The pieces in lists of about PIECE characters, so that many short documents are worked on at once."""
    held: list[Piece] = []
    size = 0
    for piece in pieces:
        if held and size + len(piece.text) > PIECE:
            yield held
            held, size = [], 0
        held.append(piece)
        size += len(piece.text)
    if held:
        yield held


def cut(text: str, limit: int) -> int:
    """The best place to cut within the first `limit` characters: after a newline, else before white space, else at `limit`.

    Our tokenizers keep newlines separate, and none of their tokens continues from a letter into a space, so the first two
    places leave the tokens unchanged. Only a run of more than `limit` characters without white space may be cut inside a token.
    """
    newline = text.rfind("\n", 0, limit)
    if newline >= 0:
        return newline + 1
    space = text.rfind(" ", 0, limit)
    while space > 0 and text[space - 1].isspace():
        space -= 1  # "a   b" is the tokens "a", "  ", " b": a run of white space must stay whole
    return space if space > 0 else limit


def slices(text: str, limit: int) -> Iterator[str]:
    """`text` in parts of at most `limit` characters, cut by `cut`."""
    start = 0
    while len(text) - start > limit:
        stop = start + cut(text[start : start + limit], limit)
        yield text[start:stop]
        start = stop
    if start < len(text):
        yield text[start:]
