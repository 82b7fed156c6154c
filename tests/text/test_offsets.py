"""Offsets of tokens: one span for each token of the tokenizer, and together they cover the text."""

from __future__ import annotations

import pytest

from firth.text.config import Kind, TokenizerConfig
from firth.text.readers.pieces import Piece
from firth.text.tokenizers.offsets import covering, offsets
from firth.text.tokenizers.tokenizer import Tokenizer

TEXT = "The unable dogs of Łódź sat, quietly (at 10:30) in the naïve café.\n" * 3
KINDS: dict[Kind, int | None] = {"char": None, "word": None, "bpe": 270, "unigram": 270, "wordpiece": 100}
TEXTS = ["The dogs of Łódź sat,\n quietly.", "  dogs  (the) café", "dogs"]


def trained(kind: Kind, lower: bool = False) -> Tokenizer:
    config = TokenizerConfig(kind=kind, vocab=KINDS[kind], lower=lower)
    return Tokenizer.train(config, [Piece(TEXT, ends_document=True)], documents=2)


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_a_span_for_each_token_and_they_leave_out_white_space_alone(kind: Kind) -> None:
    tokenizer = trained(kind)
    for text, spans in zip(TEXTS, offsets(tokenizer, TEXTS), strict=True):
        assert len(spans) == len(tokenizer.encode(text))
        assert spans == sorted(spans)
        seen = {place for start, end in spans for place in range(start, end)}
        assert {character for place, character in enumerate(text) if place not in seen} <= {" "}


@pytest.mark.parametrize("kind", KINDS)
def test_the_tokens_of_a_word_are_those_that_spell_it(kind: Kind) -> None:
    tokenizer, text = trained(kind), TEXTS[0]
    ids = tokenizer.encode(text)
    start = text.index("Łódź")
    chosen = covering(offsets(tokenizer, [text])[0], (start, start + 4))
    assert tokenizer.decode(ids[chosen]).strip() == "Łódź"
    assert chosen == list(range(chosen[0], chosen[-1] + 1))


def test_what_is_read_in_lower_case_or_not_known_has_its_place_in_the_text() -> None:
    text = "Dogs ZEBRA sat,"
    assert offsets(trained("word", lower=True), [text]) == [[(0, 4), (5, 10), (11, 15)]]


def test_a_token_counts_from_its_first_character_to_its_last() -> None:
    spans = [(0, 3), (3, 7), (7, 8)]
    assert covering(spans, (3, 7)) == [1]
    assert covering(spans, (2, 4)) == [0, 1]
    assert covering(spans, (6, 8)) == [1, 2]
    assert covering(spans, (9, 12)) == []
