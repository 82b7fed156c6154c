"""The known answers of count vectors."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from shell import Firth

from firth.errors import ConfigError, DataError
from firth.vectors.counts import cosine, distance, dot, norm, occurrences, one_hot, vocabulary_of

V, W = [1, 0, 1, 0], [0, 1, 1, 0]
VOCABULARY = ["good", "feel", "I", "sad", "cats", "have"]


def test_dot_norm_and_cosine_of_two_small_vectors_are_known() -> None:
    assert dot(V, W) == 1
    assert norm(V) == norm(W) == pytest.approx(math.sqrt(2))
    assert cosine(V, W) == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [("I feel good", "I feel sad", 2 / 3), ("I feel good", "I have cats", 1 / 3), ("I feel sad", "I have cats", 1 / 3)],
)
def test_documents_are_as_near_as_the_words_they_share(a: str, b: str, expected: float) -> None:
    assert cosine(occurrences(a, VOCABULARY), occurrences(b, VOCABULARY)) == pytest.approx(expected)


def test_different_words_are_orthogonal() -> None:
    motel, hotel = (one_hot(word, ["motel", "hotel", "inn"]) for word in ("motel", "hotel"))
    assert dot(motel, hotel) == cosine(motel, hotel) == 0
    assert dot(motel, motel) == 1


def test_a_document_is_the_sum_of_its_words() -> None:
    document = "I feel good I feel sad feel"
    total = sum(one_hot(word, VOCABULARY) for word in document.split())
    assert occurrences(document, VOCABULARY).tolist() == np.asarray(total).tolist() == [1, 3, 2, 1, 0, 0]
    assert occurrences("nobody knows", VOCABULARY).tolist() == [0] * 6


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, math.inf])
def test_norms_are_numpys(p: float) -> None:
    x = np.random.default_rng(0).standard_normal(9)
    assert norm(x, p) == pytest.approx(np.linalg.norm(x, p))


def test_norms_are_known_and_do_not_overflow() -> None:
    assert (norm([3, -4]), norm([3, -4], 1), norm([3, -4], math.inf), norm([0, 0], 1), norm([])) == (5, 7, 4, 0, 0)
    assert norm([3e200, 4e200]) == pytest.approx(5e200)


def test_zero_has_no_direction() -> None:
    assert cosine([0, 0], [1, 2]) == 0


def test_the_vocabulary_of_texts_is_in_order_of_first_use() -> None:
    assert vocabulary_of(["b a b", "c a"]) == ["b", "a", "c"]


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(ConfigError, match="expected p ≥ 1"):
        norm([1], 0.5)
    with pytest.raises(ConfigError, match=r"shapes \(2,\) and \(3,\)"):
        dot([1, 2], [1, 2, 3])
    with pytest.raises(DataError, match=r'"motl" is not in the vocabulary\. Did you mean "motel"'):
        one_hot("motl", ["motel", "hotel"])


def test_the_distances_of_two_small_vectors_are_known() -> None:
    assert distance(V, W) == pytest.approx(math.sqrt(2))
    assert (distance(V, W, 1), distance(V, W, math.inf)) == (2, 1)
    assert distance(V, W, 3) == pytest.approx(2 ** (1 / 3))


def test_the_known_answers_from_the_shell(firth: Firth) -> None:
    texts = ("I feel good", "I feel sad", "I have cats")
    printed = json.loads(firth("vectors", "counts", *texts, "--p", "3", "--json").out)
    assert printed["vocabulary"] == ["I", "feel", "good", "sad", "have", "cats"]
    assert printed["counts"] == [[1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0], [1, 0, 0, 0, 1, 1]]
    assert np.allclose(printed["cosines"], [[1, 2 / 3, 1 / 3], [2 / 3, 1, 1 / 3], [1 / 3, 1 / 3, 1]])
    assert printed["dots"] == [[3, 2, 1], [2, 3, 1], [1, 1, 3]]
    assert np.allclose(printed["distances"]["euclidean"][0], [0, math.sqrt(2), 2])
    assert printed["distances"]["manhattan"][0] == [0, 2, 4]
    assert printed["distances"]["maximum"][0] == [0, 1, 1]
    assert np.allclose(printed["distances"]["p=3"][0], [0, 2 ** (1 / 3), 4 ** (1 / 3)])
    assert np.allclose(printed["norms"]["euclidean"], math.sqrt(3))
    shown = firth("vectors", "counts", *texts).out
    assert "0.6667     2     1.4142     2.0000     1.0000  I feel good | I feel sad" in shown
    motel = json.loads(firth("vectors", "counts", "motel", "hotel", "--json").out)
    assert motel["cosines"] == [[1, 0], [0, 1]]  # one-hot words are orthogonal
