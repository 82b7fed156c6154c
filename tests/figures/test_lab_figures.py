"""Rankings, counts and training curves: the picture and its table have the numbers they were given."""

from __future__ import annotations

import math

import pytest

from firth.figures.counting import in_bytes, parameters, short
from firth.figures.ranking import ranking
from firth.figures.training import metrics, training_curves
from firth.models.counting import WeightGroup


def test_a_ranking_has_every_word_in_its_place_and_none_as_markup() -> None:
    figure = ranking([("<b>a</b>", 0.75), ("b", 0.5), ("b", -0.25)], "cosine & more")
    (bars,) = figure.plot.data
    assert (list(bars.x), list(bars.y)) == ([0.75, 0.5, -0.25], [0, 1, 2])
    assert list(figure.plot.layout.yaxis.ticktext) == ["&lt;b&gt;a&lt;/b&gt;", "b", "b"]
    assert figure.plot.layout.xaxis.title.text == "cosine &amp; more"
    assert figure.table.rows == [("<b>a</b>", "0.7500"), ("b", "0.5000"), ("b", "-0.2500")]


def test_parts_of_the_same_name_have_bars_of_their_own() -> None:
    figure = parameters([WeightGroup("query", (4, 8), 3), WeightGroup("biases", (8,), 2), WeightGroup("biases", (32,), 1)])
    (bars,) = figure.plot.data
    assert list(bars.x) == [96, 16, 32]
    assert len(set(bars.y)) == 3
    assert list(figure.plot.layout.yaxis.ticktext) == ["query", "biases", "biases"]
    assert figure.table.rows[0] == ("query", "3", "4 × 8", "96", "66.67%")


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999, "999"), (999.6, "1 k"), (1000, "1 k"), (175_181_291_520, "175 G"), (3.2e15, "3.2 P")]
)
def test_a_number_has_three_digits_and_a_unit(number: float, text: str) -> None:
    assert short(number) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 B"), (1010, "1010 B"), (1024, "1 KiB"), (3 << 39, "1.5 TiB"), (1 << 50, "1.02e+03 TiB")]
)
def test_bytes_are_shown_in_powers_of_two(number: float, text: str) -> None:
    assert in_bytes(number) == text


LOGS = {
    "one": [
        {"step": 1, "tokens": 10, "seconds": 0.5, "loss": 3.0, "rate": 0.1},
        {"step": 2, "tokens": 20, "seconds": 1.0, "loss": 2.0, "rate": 0.2, "valid": {"loss": 2.5, "bleu": 12.0, "by": [1]}},
    ],
    "<i>two</i>": [{"step": 5, "tokens": 50, "seconds": 9.0, "loss": 1.5, "flag": True, "valid": {"loss": 1.75}}],
    "empty": [],
}


def drawn(**settings: object) -> dict[str, tuple[list[float], list[float]]]:
    plot = training_curves(LOGS, **settings).plot  # type: ignore[arg-type]
    return {trace.name: (list(trace.x), list(trace.y)) for trace in plot.data}


def test_training_and_validation_of_every_run_against_anything() -> None:
    assert drawn() == {
        "one, training": ([1, 2], [3.0, 2.0]),
        "one, validation": ([2], [2.5]),
        "&lt;i&gt;two&lt;/i&gt;, training": ([5], [1.5]),
        "&lt;i&gt;two&lt;/i&gt;, validation": ([5], [1.75]),
    }
    assert drawn(against="tokens")["one, training"] == ([10, 20], [3.0, 2.0])
    assert drawn(against="seconds", metric="bleu") == {"one, validation": ([1.0], [12.0])}
    assert drawn(metric="rate") == {"one, training": ([1, 2], [0.1, 0.2])}


def test_the_table_says_when_and_of_which_run() -> None:
    assert training_curves(LOGS).table.rows == [
        ("one", "training", "1", "10", "0.5", "3"),
        ("one", "training", "2", "20", "1", "2"),
        ("one", "validation", "2", "20", "1", "2.5"),
        ("<i>two</i>", "training", "5", "50", "9", "1.5"),
        ("<i>two</i>", "validation", "5", "50", "9", "1.75"),
    ]


def test_what_there_is_to_draw_begins_with_the_loss_and_has_only_numbers() -> None:
    assert metrics(LOGS) == ["loss", "bleu", "rate"]


def test_a_long_log_is_thinned_and_keeps_its_ends() -> None:
    log = [{"step": n, "tokens": n, "seconds": n / 10, "loss": math.sin(n)} for n in range(1, 10_001)]
    (curve,) = training_curves({"long": log}).plot.data
    assert len(curve.x) == 2000
    assert (curve.x[0], curve.x[-1]) == (1, 10_000)
    assert list(curve.x) == sorted(set(curve.x))
    assert all(y == math.sin(x) for x, y in zip(curve.x, curve.y, strict=True))


def test_a_scale_can_be_logarithmic() -> None:
    assert training_curves(LOGS, log_scale=True).plot.layout.yaxis.type == "log"
    assert training_curves(LOGS).plot.layout.yaxis.type == "linear"
