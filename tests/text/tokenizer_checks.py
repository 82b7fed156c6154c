"""What holds for tokenizers of several kinds."""

from __future__ import annotations

from itertools import pairwise

import tokenizers
from hypothesis import strategies as st

from firth.text.readers.pieces import slices
from firth.text.tokenizers.tokenizer import Tokenizer

any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def slow(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(tokenizer.to_json())


def assert_cut_after_a_newline(tokenizer: Tokenizer, before: str, after: str) -> None:
    before += "\n"
    together = tokenizer.encode(before + after).tolist()
    assert together == tokenizer.encode(before).tolist() + tokenizer.encode(after).tolist()


def assert_cut_before_white_space(tokenizer: Tokenizer, text: str, limit: int) -> None:
    parts = list(slices(text, limit))
    cut_in_a_word = any(not left.endswith("\n") and not right.startswith(" ") for left, right in pairwise(parts))
    if not cut_in_a_word:
        assert tokenizer.encode(text).tolist() == [id for part in parts for id in tokenizer.encode(part).tolist()]


def assert_all_is_in_the_json(tokenizer: Tokenizer, kind: str, text: str) -> None:
    again = Tokenizer.from_json(tokenizer.to_json())
    for fact in ("kind", "vocab", "eos", "unknown", "lossless", "sha256", "dtype"):
        assert getattr(again, fact) == getattr(tokenizer, fact), fact
    assert again.kind == kind
    assert again.to_json() == tokenizer.to_json()
    assert again.encode(text).tolist() == tokenizer.encode(text).tolist()
