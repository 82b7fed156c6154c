"""The character spans of tokens in their text."""

from __future__ import annotations

from collections.abc import Sequence

import tokenizers

from firth.text.tokenizers.tokenizer import Tokenizer

Span = tuple[int, int]  # first character, and the one after the last


def offsets(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[Span]]:
    """For each text, the span of each of its tokens. A space that belongs to a token is part of its span; the bytes of one
    character share a span."""
    whole = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    return [encoding.offsets for encoding in whole.encode_batch(list(texts), add_special_tokens=False)]


def covering(spans: Sequence[Span], wanted: Span) -> list[int]:
    """The tokens that overlap `wanted`."""
    first, end = wanted
    return [token for token, (start, stop) in enumerate(spans) if start < end and stop > first]
