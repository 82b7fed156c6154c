"""One word in several sentences: where it stands, and cosines of its vectors."""

from __future__ import annotations

import numpy as np
import pytest

from firth.errors import FirthError
from firth.inspection.senses import occurrence, senses


@pytest.mark.parametrize(
    ("sentence", "word", "spelled"),
    [
        ("She turned on the light.", "light", "light"),
        ("Light bags, light hearts", "light", "Light"),
        ("(LIGHT)", "light", "LIGHT"),
        ("moonlight and lights, but light", "light", "light"),  # neither the end of a word nor its beginning
        ("light_house light", "light", "light"),
        ("a light-hearted song", "light", "light"),
        ("in New York City", "new york", "New York"),
        ("C++ is not C", "c++", "C++"),
        ("don't", "don't", "don't"),
        ("naïve café.", "CAFÉ", "café"),
        ("#1 of #2", "#2", "#2"),  # no word before the sign
    ],
)
def test_a_word_is_found_whatever_its_case_and_what_stands_around_it(sentence: str, word: str, spelled: str) -> None:
    start, end = occurrence(sentence, word)
    assert sentence[start:end] == spelled
    if spelled != "Light":
        assert start == sentence.rindex(spelled)


def test_the_number_behind_a_word_says_which_of_them() -> None:
    sentence = "light light Light"
    assert [occurrence(sentence, word)[0] for word in ("light", "light#1", "light#2", "LIGHT#3")] == [0, 0, 6, 12]
    with pytest.raises(FirthError, match='"light" occurs 3 times in the sentence "light light Light", not 4 times'):
        occurrence(sentence, "light#4")


def test_cosines_are_of_every_two_and_of_equal_vectors_one() -> None:
    x_Nd = np.array([[0.1, 0.7, 0.3], [0.1, 0.7, 0.3], [-0.7, 0.1, 0.0], [0.0, 0.0, 0.0]], np.float32)
    compared = senses("w", ["a", "b", "c", "d"], [np.ones((4, 2)), x_Nd], 1)
    assert compared.similarity[0, 1] == compared.similarity[0, 0] == 1.0  # not 0.9999999999999998
    for m in range(3):
        for n in range(3):
            x, y = x_Nd[m].astype(float), x_Nd[n].astype(float)
            assert compared.similarity[m, n] == pytest.approx(x @ y / np.sqrt((x @ x) * (y @ y)), abs=1e-9)
    assert not compared.similarity[3].any()
    assert np.array_equal(compared.static, np.ones((4, 4)))
    assert compared.table is compared.figure().table
    assert len(compared.table.rows) == 2 * 6
    assert compared.text().splitlines()[5].startswith("in context: layer 1 of 1")
