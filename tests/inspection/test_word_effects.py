"""The effect of each word on the probability of a class."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from reviews import trained_on_reviews

from firth.api import load
from firth.errors import ConfigError, DataError
from firth.inspection.word_effects import MOST_WORDS, word_effects
from firth.tasks.classification import ClassifierRun

WEIGHTS = {"good": 2.0, "bad": -3.0}


def logistic(texts: Sequence[str]) -> list[Mapping[str, float]]:
    """A classifier whose effects are known: the sum of the weights of the words."""
    scores = [sum(WEIGHTS.get(word, 0.0) for word in text.split()) for text in texts]
    return [{"positive": 1 / (1 + math.exp(-score)), "negative": 1 / (1 + math.exp(score))} for score in scores]


def test_an_effect_is_the_probability_that_the_word_adds() -> None:
    found = word_effects(logistic, "a good  bad\tfilm", "positive")
    assert found.words == ("a", "good", "bad", "film")
    whole, without_good, without_bad = (logistic([text])[0]["positive"] for text in ("good bad", "bad", "good"))
    expected = [0, whole - without_good, whole - without_bad, 0]
    np.testing.assert_allclose(found.effect, expected, atol=1e-12)
    assert found.words[found.strongest() or 0] == "bad"
    (bars,) = found.figure().plot.data
    np.testing.assert_allclose(bars.x, expected, atol=1e-12)
    assert list(bars.customdata) == ["a", "good", "bad", "film"]
    low, high = found.figure().plot.layout.xaxis.range
    assert low < min(expected), "the numbers stand beside the bars, not on the words"
    assert high > max(expected)
    assert "-0.6119  bad" in found.text()


def test_a_text_of_one_word_has_no_effects() -> None:
    found = word_effects(logistic, "good", "positive")
    assert (found.words, found.strongest()) == ((), None)


def test_a_figure_keeps_the_words_that_matter_in_the_order_of_the_text() -> None:
    found = word_effects(logistic, " ".join(["a"] * 50 + ["good"] + ["b"] * 50 + ["bad"]), "positive")
    words = list(found.figure().plot.data[0].customdata)
    assert words[-2:] == ["good", "bad"]
    with pytest.raises(DataError, match="the text has 201 words; effects are computed for at most 200"):
        word_effects(logistic, " ".join(["a"] * (MOST_WORDS + 1)), "positive")


def test_a_run_explains_its_own_class_or_another() -> None:
    run = load(trained_on_reviews(), kind=ClassifierRun)
    found = run.word_effects("a dull film")
    texts = ("a dull film", "dull film", "a film", "a dull")
    whole, *others = (run.classify([text])[0].probabilities["bad"] for text in texts)
    assert (found.label, found.words[found.strongest() or 0]) == ("bad", "dull")
    np.testing.assert_allclose(found.effect, [whole - one for one in others], atol=1e-6)
    np.testing.assert_allclose(run.word_effects("a dull film", label="good").effect, -found.effect, atol=1e-6)
    with pytest.raises(ConfigError, match='there is no class "so"; the classes are'):
        run.word_effects("a dull film", label="so")
