"""ROUGE by hand, and as the package that people report it from counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.evaluation.rouge import common_subsequence, rouge

SAID = ["the cat sat on the mat", "", "Police, killed the gunman.", "1.5 million voters", "a b c", "naïf, snake_case"]
RIGHT = ["a cat on the mat, sat", "something", "the gunman killed police", "1.5 Million Voters!", "d e f", "naïve snake"]


def test_the_example_of_the_paper_has_its_scores() -> None:
    """Lin (2004, §3): S1 "police killed the gunman", S2 "police kill the gunman", S3 "the gunman kill police"."""
    first, second = (rouge([said], ["police killed the gunman"]) for said in ("police kill the gunman", "the gunman kill police"))
    assert (first.rougeL, second.rougeL) == (75.0, 50.0)
    assert first.rouge1 == second.rouge1 == 75.0
    assert first.rouge2 == second.rouge2 == pytest.approx(100 / 3)  # "the gunman", of three pairs each


def test_the_mean_is_over_the_summaries() -> None:
    assert rouge(["a b", "c"], ["a b", "d"]).rouge1 == 50.0


words = st.lists(st.sampled_from("abcd"), max_size=9)


@given(words, words)
def test_the_longest_common_subsequence_is_that_of_the_table(one: list[str], other: list[str]) -> None:
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, a in enumerate(one, start=1):
        for j, b in enumerate(other, start=1):
            table[i][j] = table[i - 1][j - 1] + 1 if a == b else max(table[i - 1][j], table[i][j - 1])
    assert common_subsequence(one, other) == table[-1][-1]


def test_it_is_what_the_package_counts() -> None:
    scorer = pytest.importorskip("rouge_score.rouge_scorer", reason="needs rouge-score, the oracle of ROUGE")
    names = ("rouge1", "rouge2", "rougeL")
    counted = scorer.RougeScorer(names, use_stemmer=False)
    for said, right in zip(SAID, RIGHT, strict=True):
        expected = counted.score(right, said)
        scores = rouge([said], [right])
        for name in names:
            assert getattr(scores, name) == pytest.approx(100 * expected[name].fmeasure), (name, said, right)
