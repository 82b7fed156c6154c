"""tokenizer.lower: words as if written in lower case, by the table and by the tokenizer.json alike."""

from __future__ import annotations

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from firth.errors import ConfigError
from firth.text.config import TokenizerConfig
from firth.text.readers.pieces import Piece
from firth.text.tokenizers.tokenizer import Tokenizer

TEXT = "The cat SAT on the Mat\nΟΔΟΣ οδοσ İstanbul <EOS> the"
LOWER = Tokenizer.train(TokenizerConfig(kind="word", lower=True), [Piece(TEXT, True)], 1)
AS_IS = Tokenizer.train(TokenizerConfig(kind="word"), [Piece(TEXT, True)], 1)


def test_case_is_not_told_apart() -> None:
    assert LOWER.encode("THE Cat").tolist() == LOWER.encode("the cat").tolist()
    assert LOWER.decode(LOWER.encode("THE Cat sat")) == "the cat sat"
    assert LOWER.unseen("The CAT DOG") == ["dog"]
    assert AS_IS.unseen("The CAT") == ["CAT"]


def test_it_is_remembered_in_the_tokenizer_json() -> None:
    again = Tokenizer.from_json(LOWER.to_json())
    assert again.kind == "word"
    assert again.encode("THE Cat").tolist() == LOWER.encode("the cat").tolist()
    assert Tokenizer.from_json(AS_IS.to_json()).encode("THE").tolist() == [AS_IS.unknown]


@example("ΟΔΟΣ οδοσ")
@given(st.text(st.sampled_from("theCAT ΣσςİI<EOS>\nß"), max_size=40))
def test_the_table_equals_the_tokenizer_json(text: str) -> None:
    slow = tokenizers.Tokenizer.from_str(LOWER.to_json())
    assert LOWER.encode(text).tolist() == slow.encode(text).ids


def test_it_is_refused_for_other_kinds() -> None:
    with pytest.raises(ConfigError, match=r'tokenizer\.lower is true, but tokenizer\.kind is "bpe"'):
        TokenizerConfig(kind="bpe", lower=True)
