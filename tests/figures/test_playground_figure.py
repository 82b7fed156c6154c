"""The playground's steps as cells: the numbers are those given, and text from a user is text."""

from __future__ import annotations

import math

import pytest

from firth.errors import DataError
from firth.figures.playground import Panel, panel_figure, panels_figure, panels_text

SCORES = Panel("scores", "a = q · k", ("x", "y"), ("x", "y", "z"), [[1.0, -2.0, 3.0], [0.5, -0.25, 1234.5]], False)
MASKED = Panel("masked", "m = s where k < q, else −∞", ("x",), ("x", "y"), [[1.0, -math.inf]], False)
WEIGHTS = Panel("weights", "p", ("x",), ("x", "y"), [[0.75, 0.25]], True)


def test_cells_hold_the_numbers_and_scales_have_their_zero_in_the_middle() -> None:
    scores, weights = panels_figure([SCORES, WEIGHTS]).plot.data
    assert [list(row) for row in scores.z] == [[1.0, -2.0, 3.0], [0.5, -0.25, 1234.5]]
    assert (scores.zmin, scores.zmax) == (-1234.5, 1234.5)
    assert (weights.zmin, weights.zmax) == (0, 1)
    assert list(scores.text[0]) == ["1.00", "-2.00", "3.00"]


def test_what_a_mask_forbids_has_no_colour() -> None:
    figure = panel_figure(MASKED)
    assert list(figure.plot.data[0].z[0]) == [1.0, None]
    assert list(figure.plot.data[0].text[0]) == ["1.00", "−∞"]
    written = figure.plot.data[1]
    assert (list(written.x), list(written.y), list(written.text)) == ([1], [0], ["−∞"])
    assert list(figure.table.rows) == [("masked", "x", "x", "1"), ("masked", "x", "y", "−∞")]


def test_many_columns_have_no_numbers_in_their_cells() -> None:
    wide = Panel("scores", "a", ("x",), [str(n) for n in range(13)], [[0.0] * 13], False)
    assert panel_figure(wide).plot.data[0].texttemplate == ""
    assert panel_figure(SCORES).plot.data[0].texttemplate == "%{text}"


def test_words_that_look_like_markup_are_shown_as_they_are() -> None:
    word = "<b>&"
    plot = panels_figure([Panel("scores", "k < q", (word,), (word,), [[1.0]], False)]).plot
    assert list(plot.layout.xaxis.ticktext) == list(plot.layout.yaxis.ticktext) == ["&lt;b&gt;&amp;"]
    assert plot.data[0].hovertext[0][0] == "&lt;b&gt;&amp; → &lt;b&gt;&amp;"
    assert plot.layout.annotations[0].text == "<b>scores</b>  k &lt; q"
    assert not panel_figure(SCORES).plot.layout.annotations


def test_the_terminal_has_the_same_numbers_and_goes_on_below() -> None:
    assert panels_text([MASKED]).splitlines() == [
        "masked   m = s where k < q, else −∞",
        "           x        y",
        "x       1.00       −∞",
    ]
    narrow = panels_text([SCORES], width=21).splitlines()
    assert [line.split() for line in narrow[1:]] == [
        ["x", "y"],
        ["x", "1.00", "-2.00"],
        ["y", "0.50", "-0.25"],
        ["z"],
        ["x", "3.00"],
        ["y", "1234"],
    ]


def test_long_and_unprintable_words_are_cut_and_made_visible() -> None:
    shown = panels_text([Panel("scores", "a", ("x" * 30 + "\x1b[2J",), ("\x1b",), [[1.0]], False)])
    assert "\x1b" not in shown
    assert f"{'x' * 15}…" in shown


def test_rows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match="the step scores has 1 rows of numbers; expected 1 rows of 3 numbers"):
        panel_figure(Panel("scores", "a", ("x",), ("x", "y", "z"), [[1.0]], False))
