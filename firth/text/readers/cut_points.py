"""Where text may be cut so that tokenising the parts equals tokenising the whole."""

from __future__ import annotations

from collections.abc import Iterator


def cut(text: str, limit: int) -> int:
    """The best place to cut, at most `limit` characters in: after a newline, else before white space, else at `limit`.

    Our tokenizers keep a newline to itself and let no token run from a letter into a space, so the first two places
    change nothing. Only a run of more than `limit` characters without white space is cut inside a possible token.
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
