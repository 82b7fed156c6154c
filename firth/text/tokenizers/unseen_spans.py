"""The places of a text that a tokenizer has never seen."""

from __future__ import annotations

import re

from firth.text.tokenizers.offsets import Span
from firth.text.tokenizers.tokenizer import Tokenizer

_PIECE = re.compile(r"\S+|\s")


def unseen_spans(tokenizer: Tokenizer, text: str) -> list[Span]:
    """The characters or words of `text` that are not in the vocabulary, in their order."""
    if not tokenizer.unseen(text):
        return []
    return [span for piece in _PIECE.finditer(text) for span in _within(tokenizer, piece.group(), piece.start())]


def _within(tokenizer: Tokenizer, piece: str, start: int) -> list[Span]:
    """A word is unseen as a whole, or some characters of it are, or some of the words that a tokenizer splits it into."""
    unseen = tokenizer.unseen(piece)
    if not unseen:
        return []
    if len(piece) == 1 or (len(unseen) == 1 and unseen[0].lower() == piece.lower()):
        return [(start, start + len(piece))]
    any_of = "|".join(re.escape(one) for one in sorted(unseen, key=len, reverse=True))
    found = re.finditer(any_of, piece, re.IGNORECASE if len(max(unseen, key=len)) > 1 else 0)
    return [(start + one.start(), start + one.end()) for one in found]
