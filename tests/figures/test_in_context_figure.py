"""The picture of what is done after so many examples, and its text: the numbers that were given, and no markup of a user's."""

from __future__ import annotations

from typing import Any

import pytest

from firth.errors import DataError
from firth.figures.in_context import examples_text, score_by_examples

GOOD = [{"examples": k, "accuracy": a, "best": b, "loss": 0.1} for k, (a, b) in enumerate([(0.1, 0.2), (0.5, 0.6), (0.9, 1.0)])]
BAD = [{**row, "accuracy": 0.1} for row in GOOD]
ERRORS = [
    {"examples": 0, "squared_error": 1.25, "least_squares": 1.0, "zero": 1.0},
    {"examples": 1, "squared_error": 0.5, "least_squares": 0.0, "zero": 1.0},
]


def lines(plot: Any) -> dict[str, tuple[list[int], list[float]]]:
    return {trace.name: (list(trace.x), list(trace.y)) for trace in plot.data}


def test_each_model_is_a_line_and_what_can_be_done_another() -> None:
    figure = score_by_examples({"one": GOOD, "other": BAD}, "accuracy")
    assert lines(figure.plot) == {
        "one": ([0, 1, 2], [0.1, 0.5, 0.9]),
        "other": ([0, 1, 2], [0.1, 0.1, 0.1]),
        "best possible from the examples": ([0, 1, 2], [0.2, 0.6, 1.0]),
    }
    assert figure.table.headings == ("examples", "one", "other", "best possible from the examples")
    assert figure.table.rows[1] == ("1", "0.5000", "0.1000", "0.6000")
    styles = [(trace.line.color, trace.line.dash) for trace in figure.plot.data]
    assert len(set(styles)) == 3


def test_errors_stand_beside_least_squares_and_zero() -> None:
    figure = score_by_examples({"one": ERRORS}, "squared_error")
    assert lines(figure.plot) == {
        "one": ([0, 1], [1.25, 0.5]),
        "least squares": ([0, 1], [1.0, 0.0]),
        "always 0": ([0, 1], [1.0, 1.0]),
    }
    assert figure.table.rows == [("0", "1.2500", "1.0000", "1.0000"), ("1", "0.5000", "0.0000", "1.0000")]


def test_least_squares_that_knows_too_little_does_not_flatten_the_others() -> None:
    wild = [ERRORS[0], {**ERRORS[1], "least_squares": 300.0}]
    figure = score_by_examples({"one": wild}, "squared_error")
    assert list(figure.plot.layout.yaxis.range) == pytest.approx([0, 1.1 * 1.25])
    assert figure.table.rows[1][2] == "300.0000"


def test_a_name_that_looks_like_markup_is_text() -> None:
    figure = score_by_examples({"<b>one</b><script>": GOOD}, "accuracy")
    assert figure.plot.data[0].name == "&lt;b&gt;one&lt;/b&gt;&lt;script&gt;"
    assert "<script>&lt;" not in figure.html()
    assert "<b>one" not in figure.table.html()


def test_the_text_has_a_line_for_each_number_of_examples_and_a_bar() -> None:
    told = examples_text(GOOD, "accuracy").splitlines()
    assert told[0].split() == ["examples", "accuracy", "best", "possible", "from", "the", "examples"]
    assert [line.split()[:3] for line in told[1:]] == [
        ["0", "0.1000", "0.2000"],
        ["1", "0.5000", "0.6000"],
        ["2", "0.9000", "1.0000"],
    ]
    assert [line.count("█") for line in told[1:]] == [2, 10, 18]
    assert [line.count("█") for line in examples_text(ERRORS, "squared_error").splitlines()[1:]] == [20, 10]


@pytest.mark.parametrize(
    ("models", "complaint"),
    [
        ({}, "there are no results to plot"),
        ({"one": []}, "there are no results to plot"),
        ({"one": GOOD, "two": ERRORS}, '"two" has no accuracy; expected models of the same kind of task'),
        ({"one": GOOD, "two": GOOD[:2]}, 'up to 2 examples for "one" and up to 1 for "two". Use runs with the same'),
    ],
)
def test_what_cannot_be_compared_is_refused(models: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        score_by_examples(models, "accuracy")
