"""Exact match and F1 by worked examples, and the best span by looking at all of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firth.errors import DataError
from firth.evaluation.question_answering import best_span, evaluate, find, normalized, overlap, scores
from firth.text.config import TokenizerConfig
from firth.text.data.questions import windows
from firth.text.readers.pieces import pieces_of_text
from firth.text.readers.squad import GoldAnswer, Question
from firth.text.tokenizers.tokenizer import Tokenizer

CONTEXT = " ".join(f"w{n}" for n in range(20))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Norman conquest!", "norman conquest"),
        ("an  apple, a\tday", "apple day"),
        ("a.m.", "am"),  # punctuation goes first, so that "a" is no article here
        ("theatre", "theatre"),
        ("don't", "dont"),
        ("The", ""),
        ("Ça va – bien", "ça va – bien"),  # only ASCII punctuation is left out
    ],
)
def test_texts_are_compared_without_case_articles_and_punctuation(text: str, expected: str) -> None:
    assert normalized(text) == expected


@pytest.mark.parametrize(
    ("said", "right", "f1"),
    [
        ("the Denver Broncos", "Denver Broncos", 1.0),
        ("Denver", "Denver Broncos", 2 / 3),  # precision 1, recall 1/2
        ("in Santa Clara, California", "Santa Clara", 2 * (2 / 4) * 1 / (2 / 4 + 1)),
        ("a a b b", "b b b", 4 / 5),  # "a" is left out; two of b b and b b b
        ("Oslo", "Rome", 0.0),
        ("the", "an", 0.0),  # nothing is left of either, and nothing is common
    ],
)
def test_f1_is_that_of_the_words_they_have_in_common(said: str, right: str, f1: float) -> None:
    assert overlap(said, right) == pytest.approx(f1)
    assert overlap(right, said) == pytest.approx(f1)


def test_of_several_right_answers_the_nearest_counts() -> None:
    exact, f1 = scores(["Denver", "Rome"], [["the Broncos", "Denver Broncos", "denver"], ["Oslo", "in Rome"]])
    assert exact == pytest.approx(1 / 2)
    assert f1 == pytest.approx((1 + 2 / 3) / 2)


@pytest.mark.parametrize(("said", "right"), [([], []), (["a"], []), (["a"], [[]])])
def test_there_must_be_something_to_compare(said: list[str], right: list[list[str]]) -> None:
    with pytest.raises(DataError, match="give one prediction and at least one correct answer per question"):
        scores(said, right)


@given(st.integers(1, 9), st.integers(1, 12), st.integers(0, 10_000))
def test_the_best_span_is_that_of_all_of_them(length: int, longest: int, seed: int) -> None:
    start, end = np.random.default_rng(seed).normal(size=(2, length))
    every = [(i, j) for i in range(length) for j in range(i, min(length, i + longest))]
    assert best_span(start, end, longest) == max(every, key=lambda span: start[span[0]] + end[span[1]])


class Pointing(torch.nn.Module):
    """Likes to begin with one word of the context and to end with another."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__()
        self.start, self.end = start, end
        self.weight = torch.nn.Parameter(torch.zeros(()))

    def forward(self, token_BT: Any, length_B: Any, first_B: Any) -> Any:
        place_T = torch.arange(token_BT.shape[1])
        inside_BT = (place_T >= first_B[:, None]) & (place_T < length_B[:, None] - 1)
        return tuple(
            torch.where(inside_BT, torch.where(token_BT == wanted, 2.0, 0.0), -torch.inf) for wanted in (self.start, self.end)
        )


@pytest.mark.parametrize("limit", [40, 14, 9])
def test_the_answer_is_the_same_in_one_window_or_in_several(limit: int) -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(kind="word"), pieces_of_text(f"{CONTEXT} where is it"), documents=2)
    model: Any = Pointing(*(int(tokenizer.encode(word)[0]) for word in ("w11", "w12")))
    questions = [
        Question("here", CONTEXT, "where is it", (GoldAnswer(answer, CONTEXT.index(answer)),)) for answer in ("w11 w12", "w3")
    ]
    readings = windows(questions, tokenizer, limit)
    answers = find(model, readings, longest=5, batch=3)
    assert [(one.text, one.start) for one in answers] == [("w11 w12", CONTEXT.index("w11"))] * 2
    measured = evaluate(model, readings, longest=5, batch=3)
    assert (measured.exact, measured.f1) == (0.5, 0.5)
    assert (measured.questions, measured.windows) == (2, len(readings))
    # Every place of every window of the question is one that the answer might begin or end at.
    contexts = [readings.ids[readings.starts[n] + 4 : readings.starts[n + 1] - 1] for n in range(len(readings) // 2)]
    places = np.concatenate(contexts)
    totals = [len(places) + int((places == wanted).sum()) * (math.exp(2) - 1) for wanted in (model.start, model.end)]
    assert answers[0].log_probability == pytest.approx(4 - sum(map(math.log, totals)))
    if limit == 40:  # of "w11 w12" each end has e²/total, of "w3" each 1/total
        assert measured.loss == pytest.approx((math.log(totals[0]) - 2 + math.log(totals[0])) / 2)


def test_an_answer_has_no_more_tokens_than_it_may() -> None:
    tokenizer = Tokenizer.train(TokenizerConfig(kind="word"), pieces_of_text(f"{CONTEXT} where"), documents=2)
    model: Any = Pointing(*(int(tokenizer.encode(word)[0]) for word in ("w3", "w12")))
    readings = windows([Question("here", CONTEXT, "where")], tokenizer, 40)
    assert len(find(model, readings, longest=4, batch=8)[0].text.split()) <= 4
    assert find(model, readings, longest=10, batch=8)[0].text == " ".join(f"w{n}" for n in range(3, 13))
