from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from firth.errors import DataError
from firth.text.lexicon import CountedWords, Lexicon
from firth.vectors.vocabulary import Vocabulary, chosen


def words_of(text: str) -> CountedWords:
    lexicon = Lexicon()
    lexicon.read(text.encode())
    return lexicon.words()


def counts(vocabulary: Vocabulary) -> dict[str, int]:
    return dict(zip(vocabulary.words, vocabulary.count_V.tolist(), strict=True))


def test_words_are_sorted_by_count_then_by_alphabet() -> None:
    vocabulary = chosen([words_of("d c c b b a a a")], 1, None, None, "it")
    assert vocabulary.words == ["a", "b", "c", "d"]
    assert vocabulary.count_V.tolist() == [3, 2, 2, 1]
    assert [vocabulary.id(word) for word in ("a", "d", "e")] == [0, 3, None]
    assert "b" in vocabulary
    assert "e" not in vocabulary
    assert len(vocabulary) == 4


def test_rare_words_are_left_out_and_the_most_frequent_kept() -> None:
    part = words_of("d c c b b a a a")
    assert chosen([part], 2, None, None, "it").words == ["a", "b", "c"]
    assert chosen([part], 1, 2, None, "it").words == ["a", "b"]


def test_counts_of_parts_add_up_before_rare_words_are_left_out() -> None:
    texts = ["a b c d x", "b c d e y y", "d e a b z"]
    total = Counter(" ".join(texts).split())
    expected = {word: count for word, count in total.items() if count >= 2}
    assert counts(chosen([words_of(text) for text in texts], 2, None, None, "it")) == expected
    assert "y" in expected
    base = Vocabulary(["a", "b", "c", "d", "e"], np.array([100] * 5))
    further = chosen([words_of(text) for text in texts], 9, None, base, "it")
    assert counts(further) == {word: 100 + total[word] for word in base.words}


def test_words_of_a_base_stay_and_count_on() -> None:
    base = Vocabulary(["old", "both"], np.array([7, 3]))
    vocabulary = chosen([words_of("both new new once both new")], 3, None, base, "it")
    assert counts(vocabulary) == {"old": 7, "both": 5, "new": 3}
    assert vocabulary.words == ["old", "both", "new"]
    assert counts(chosen([words_of("new new")], 1, 2, base, "it")) == {"old": 7, "both": 3}


@pytest.mark.parametrize(
    ("text", "min_count", "complaint"),
    [
        ("", 1, "it contains no words"),
        ("a b b c", 5, 'min_count 5 leaves no words of it: the most frequent, "b", occurs 2 times. Use more text or a smaller'),
        ("a a a", 1, 'it has only one word that occurs 1 times, "a"; training needs at least two'),
        ("a b b", 2, 'it has only one word that occurs 2 times, "b"'),
        ("x" * 1000, 5, f'"{"x" * 40}…"'),
    ],
)
def test_too_few_words_are_refused_with_the_reason(text: str, min_count: int, complaint: str) -> None:
    with pytest.raises(DataError) as error:
        chosen([words_of(text)], min_count, None, None, "it")
    assert complaint in str(error.value)


def test_words_and_counts_must_match() -> None:
    with pytest.raises(DataError, match="2 words but 3 counts"):
        Vocabulary(["a", "b"], np.array([1, 2, 3]))
