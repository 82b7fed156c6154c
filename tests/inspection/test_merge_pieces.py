"""Pieces back to words: as the tokenizers of firth cut them, and attention between them against sums in a loop."""

from __future__ import annotations

import numpy as np
import pytest

from firth.errors import DataError
from firth.inspection.merge_pieces import merge, words_of
from firth.text.config import Kind, TokenizerConfig
from firth.text.readers.pieces import Piece
from firth.text.tokenizers.tokenizer import Tokenizer

TEXT = "The unable dogs of Łódź sat, quietly (at 10:30) in the naïve café.\n" * 3
WORDS = [
    "The",
    "unable",
    "dogs",
    "of",
    "Łódź",
    "sat",
    ",",
    "quietly",
    "(",
    "at",
    "10",
    ":",
    "30",
    ")",
    "in",
    "the",
    "naïve",
    "café",
    ".",
]


def pieces_of(kind: Kind, text: str, vocab: int | None = None) -> list[str]:
    tokenizer = Tokenizer.train(TokenizerConfig(kind=kind, vocab=vocab), [Piece(TEXT, ends_document=True)], documents=2)
    return [tokenizer.token(id) for id in [*tokenizer.encode(text).tolist(), tokenizer.eos]]


@pytest.mark.parametrize("vocab", [257, 270, 300])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_bytes_are_joined_to_words_and_punctuation(kind: Kind, vocab: int) -> None:
    pieces = pieces_of(kind, TEXT.splitlines()[0], vocab)
    if vocab == 257:  # all pieces are bytes
        assert {"<0xC5>", "<0xBA>"} < set(pieces)
    words, numbers = words_of(pieces)
    assert words == [*WORDS, "<eos>"]
    assert len(numbers) == len(pieces)
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(len(words)))


def test_word_pieces_are_joined_and_punctuation_stands_apart_where_it_is_a_piece() -> None:
    words, numbers = words_of(pieces_of("wordpiece", "The unable cat sat, quietly", vocab=64))
    assert words == ["The", "unable", "cat", "sat", ",", "quietly", "<eos>"]
    assert len(set(numbers)) == len(words) < len(numbers)


def test_a_word_that_is_not_known_is_one_word() -> None:
    words, _ = words_of(pieces_of("wordpiece", "The Ж Ж dogs"))
    assert words == ["The", "<unk>", "<unk>", "dogs", "<eos>"]


@pytest.mark.parametrize("kind", ["char", "word"])
def test_characters_and_whole_words_are_left_as_they_are(kind: Kind) -> None:
    pieces = pieces_of(kind, "The dogs sat,")
    assert words_of(pieces, merged=False) == (pieces, list(range(len(pieces))))


@pytest.mark.parametrize(
    ("pieces", "words", "numbers"),
    [
        ([" un", "able", ".", "<eos>"], ["unable", ".", "<eos>"], [0, 0, 1, 2]),
        (["a", ".", "..", " b"], ["a", "...", "b"], [0, 1, 1, 2]),
        (["1994", "-", "07", "-", "0", "3"], ["1994", "-", "07", "-", "03"], [0, 1, 2, 3, 4, 4]),
        (["a", " ", " b"], ["a", " ", "b"], [0, 1, 2]),  # two spaces in a row
        (["a", "<0x20><0xE2>", "<0x82>", "<0xAC>", "5"], ["a", "€", "5"], [0, 1, 1, 1, 2]),
        (["a", "<0xC3>", "<0xA9>", "b"], ["aéb"], [0, 0, 0, 0]),
        (["a", "<0xE2>", "<0x82>", "<0xAC>"], ["a", "€"], [0, 1, 1, 1]),  # what the first byte begins is told by the last
        (["a", "<0xE2>", " b"], ["a", "\ufffd", "b"], [0, 1, 2]),  # half a character, and never the rest
        (["a", "\n", "b"], ["a", "\n", "b"], [0, 1, 2]),
        ([".", "<eos>", "<eos>", "<unk>", "ing"], [".", "<eos>", "<eos>", "<unk>", "ing"], [0, 1, 2, 3, 4]),
        (["हिन", "्दी"], ["हिन्दी"], [0, 0]),  # a vowel sign is neither a letter nor punctuation to Unicode
        (["我", "喜欢", "吃", "。"], ["我", "喜欢", "吃", "。"], [0, 1, 2, 3]),  # no spaces to tell words by
        ([" Sea", "t", "tle", "へ"], ["Seattle", "へ"], [0, 0, 0, 1]),
        ([], [], []),
    ],
)
def test_where_a_word_begins(pieces: list[str], words: list[str], numbers: list[int]) -> None:
    assert words_of(pieces) == (words, numbers)


def test_an_empty_piece_is_refused() -> None:
    with pytest.raises(DataError, match=r"a piece of a word is empty; expected tokens as spelled by"):
        words_of(["a", "", "b"])


def drawn(seed: int, *shape: int) -> np.ndarray:
    weights = np.random.default_rng(seed).exponential(size=shape)
    return weights / weights.sum(-1, keepdims=True)


def test_columns_are_added_and_rows_averaged() -> None:
    rows, columns = [0, 0, 0, 1, 2, 2], [0, 1, 1, 2, 3, 3, 3]
    alpha_TS = drawn(0, 6, 7)
    expected = np.zeros((3, 4))
    for i in range(3):
        own = [t for t in range(6) if rows[t] == i]
        for j in range(4):
            expected[i, j] = sum(alpha_TS[t, s] for t in own for s in range(7) if columns[s] == j) / len(own)
    np.testing.assert_allclose(merge(alpha_TS, rows, columns), expected, rtol=1e-14)
    np.testing.assert_allclose(merge(alpha_TS, rows, columns).sum(-1), 1, rtol=1e-14)


def test_words_of_one_piece_each_change_nothing() -> None:
    alpha_TS = drawn(1, 4, 5)
    assert np.array_equal(merge(alpha_TS.tolist(), range(4), range(5)), alpha_TS)


def test_layers_and_heads_are_merged_one_by_one() -> None:
    rows, columns, alpha_LHTS = [0, 0, 1], [0, 1, 1, 1], drawn(2, 2, 3, 3, 4).astype(np.float32)
    merged = merge(alpha_LHTS, rows, columns)
    assert (merged.shape, merged.dtype) == ((2, 3, 2, 2), np.float64)
    np.testing.assert_allclose(merged[1, 2], merge(alpha_LHTS[1, 2], rows, columns), rtol=1e-14)


def test_word_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match=r"shape \(3, 4\), but there are 2 target and 4 source tokens. Pass one word index"):
        merge(drawn(3, 3, 4), [0, 1], [0, 1, 2, 3])
    with pytest.raises(DataError, match=r"the weights have shape \(4,\), but"):
        merge(drawn(3, 4), [0, 1, 2, 3], [0, 1, 2, 3])
    with pytest.raises(DataError, match=r"the word indices are \[0, 2\]; expected 0, 1, 2 … without gaps"):
        merge(drawn(3, 2, 2), [0, 2], [0, 1])
