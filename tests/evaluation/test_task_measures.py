"""Measures by task, told by the prompt; and ROUGE beside them where it is asked for."""

from __future__ import annotations

import pytest

from firth.evaluation.rouge import rouge
from firth.evaluation.translation import TranslationMeasures, measures

SOURCES = ["sentiment: a", "dutch: b b", "sentiment: c", "dutch: d"]
SAID = ["good", "Dit is een heel mooi boek .", "bad", "nee"]
RIGHT = ["good", "Dit is een heel mooi boek .", "good", "Dat is een oud en duur huis ."]


def of(sources: list[str], summaries: bool = False) -> TranslationMeasures:
    return measures(SAID, RIGHT, [2, 3, 2, 2], lower=False, language=None, sources=sources, summaries=summaries)


def test_each_task_is_measured_by_itself() -> None:
    dutch, sentiment = of(SOURCES).tasks
    assert (sentiment.task, sentiment.sentences, sentiment.bleu, sentiment.exact) == ("sentiment", 2, None, 0.5)
    assert (dutch.task, dutch.sentences, dutch.exact) == ("dutch", 2, 0.5)
    alone = measures(SAID[1::2], RIGHT[1::2], [3, 2], lower=False, language=None)
    assert dutch.bleu == pytest.approx(alone.bleu)
    assert 0 < alone.bleu < 100


@pytest.mark.parametrize("sources", [[], ["sentiment: a", "b", "dutch: c", "d"], ["12:30", "dutch: b", "dutch: c", "dutch: d"]])
def test_where_not_all_sources_have_a_prompt_nothing_is_told_by_task(sources: list[str]) -> None:
    assert of(sources).tasks == ()


def test_many_first_words_are_no_tasks() -> None:
    names = [f"name{n}: hello" for n in range(21)]
    assert measures(["a"] * 21, ["a"] * 21, [1] * 21, lower=False, language=None, sources=names).tasks == ()


def test_rouge_is_told_where_it_is_asked_for() -> None:
    assert of(SOURCES).rougeL is None
    scores, expected = of(SOURCES, summaries=True), rouge(SAID, RIGHT)
    assert (scores.rouge1, scores.rouge2, scores.rougeL) == (expected.rouge1, expected.rouge2, expected.rougeL)
