"""Contrast pairs: what counts as right, and what the pairs are like."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from firth.evaluation.contrast import CONTRAST_PAIRS, NEGATIVE, POSITIVE, measure_contrast
from firth.text.datasets.negations import negations

PAIRS = [pair for pairs in CONTRAST_PAIRS.values() for pair in pairs]
TRUTH = {text: label for pair in PAIRS for text, label in zip(pair, (POSITIVE, NEGATIVE), strict=True)}


def test_there_are_a_hundred_different_pairs() -> None:
    assert len(PAIRS) == 100
    assert len(TRUTH) == 200
    assert PAIRS[0] == ("i like this product", "i do not like this product")


def test_a_constant_and_a_reversed_classifier_have_no_pair_right_and_a_perfect_one_all() -> None:
    perfect = measure_contrast(lambda texts: [TRUTH[text] for text in texts])
    assert (perfect.pairs, perfect.pair_accuracy, perfect.sentence_accuracy, perfect.wrong) == (100, 1, 1, ())
    constant = measure_contrast(lambda texts: [POSITIVE] * len(texts))
    assert (constant.pair_accuracy, constant.sentence_accuracy, len(constant.wrong)) == (0, 0.5, 100)
    assert set(constant.by_kind.values()) == {0}
    reversed_ = measure_contrast(lambda texts: [{POSITIVE: NEGATIVE, NEGATIVE: POSITIVE}[TRUTH[text]] for text in texts])
    assert (reversed_.pair_accuracy, reversed_.sentence_accuracy) == (0, 0)


def test_a_pair_is_right_only_if_both_sentences_are() -> None:
    def classify(texts: Sequence[str]) -> list[str]:
        """Every sentence right but the second one of the first pair."""
        return [POSITIVE if text == PAIRS[0][1] else TRUTH[text] for text in texts]

    scores = measure_contrast(classify)
    assert scores.pair_accuracy == pytest.approx(0.99)
    assert scores.sentence_accuracy == pytest.approx(0.995)
    assert scores.by_kind["negated verb"] == pytest.approx(0.9)
    assert scores.wrong == (("i do not like this product", POSITIVE),)


def test_no_pair_is_among_the_generated_opinions() -> None:
    assert not {text for text, _ in negations()} & TRUTH.keys()
