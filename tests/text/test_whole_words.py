"""Beginnings of words, looked up for many tokens at once, equal those found one by one."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from firth.text.config import LearnedKind, TokenizerConfig
from firth.text.readers.pieces import Piece
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.text.tokenizers.whole_words import WordStarts, words_of

TEXT = "The unable cat, quietly — sat (on a mat).\nUnbelievable! 日本語 is not  a\tword; 12-b, and so on.\n" * 3


def made(kind: LearnedKind, vocab: int | None = 300) -> Tokenizer:
    config = TokenizerConfig(kind=kind, vocab=vocab, min_count=1)
    return Tokenizer.train(config, [Piece(TEXT, True), Piece(TEXT, True)], documents=2)


@pytest.mark.parametrize("kind", [kind for kind in get_args(LearnedKind) if kind != "word"])
def test_the_table_says_what_reading_the_pieces_says(kind: LearnedKind) -> None:
    tokenizer = made(kind)
    ids = np.concatenate([tokenizer.encode(TEXT), [tokenizer.eos], tokenizer.encode("The mat")]).astype(np.int64)
    pieces = [tokenizer.token(int(id)) for id in ids]
    plain = np.array(["<0x" not in piece for piece in pieces])
    _, numbers = words_of(pieces)
    expected = np.diff(numbers, prepend=-1) > 0
    known = plain & np.roll(plain, 1)  # bytes are told apart only by what they complete
    assert known.sum() > 50
    assert np.array_equal(WordStarts(tokenizer)(ids[None])[0][known], expected[known])


def test_bytes_that_are_no_text_are_letters() -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(kind="bpe", vocab=257), [Piece("abc", True)], documents=1)
    ids = tokenizer.encode("aé é.").astype(np.int64)
    assert WordStarts(tokenizer)(ids[None])[0].tolist() == [True, False, False, True, False, False, True]


def test_each_token_of_a_word_tokenizer_is_a_word() -> None:
    tokenizer = made("word", None)
    assert WordStarts(tokenizer)(tokenizer.encode(TEXT)[None].astype(np.int64)).all()
