"""Predictions, states and gradient flow as pictures and as text."""

from __future__ import annotations

import numpy as np
import pytest

from firth.errors import DataError
from firth.figures.gradient_flow import flow_by_distance
from firth.figures.predictions import predictions_text, surprisal_strip
from firth.figures.states import states_map, states_text

SCRIPT = "<script>alert(1)</script>"
TOP = [(("a", 0.5), (SCRIPT, 0.25)), (("b", 1.0),), (("c", 0.125),)]


def test_a_strip_has_a_cell_for_each_token_and_says_what_was_expected() -> None:
    figure = surprisal_strip(["a", "b", "c"], [1.0, 0.0, 3.0], [0.5, 1.0, 0.125], [1, 1, 2], [0.3, 0.0, 0.9], TOP)
    (heat,) = figure.plot.data
    assert [list(row) for row in heat.z] == [[1.0, 0.0, 3.0]]
    assert heat.text == (("a", "b", "c"),) or [list(row) for row in heat.text] == [["a", "b", "c"]]
    assert "p = 0.1250, rank 2" in heat.hovertext[0][2]
    assert "&lt;script&gt;" in heat.hovertext[0][0]
    assert figure.table.rows[2] == ("2", "c", "0.125000", "2", "3.0000", "0.9000", "c 0.125")


def test_a_long_text_is_wrapped_and_the_last_row_filled_with_gaps() -> None:
    n = 70
    figure = surprisal_strip(["word"] * n, np.arange(n), np.ones(n), [1] * n, np.zeros(n), [()] * n)
    (heat,) = figure.plot.data
    assert {len(row) for row in heat.z} == {16}
    assert [value for row in heat.z for value in row if value is not None] == list(range(n))
    assert len(heat.z) == len(heat.text) == len(heat.hovertext) == 5
    assert heat.z[-1][-1] is None


def test_nothing_in_a_strip_is_markup() -> None:
    figure = surprisal_strip([SCRIPT], [1.0], [0.5], [1], [0.3], TOP[:1])
    assert "<script" not in str(figure.plot.to_plotly_json())
    assert "<script>alert" not in figure.html()


def test_predictions_are_printed_a_line_each_within_the_width() -> None:
    lines = predictions_text(["a", "日本", "c"], [1, 0, 3], [0.5, 1, 0.125], [1, 1, 2], TOP, (("z", 0.9),), 60).splitlines()
    assert lines[0].split() == ["came", "p", "rank", "bits", "expected"]
    assert lines[2].split() == ["日本", "1.0000", "1", "0.00", "b", "1.000"]
    assert lines[4].split() == ["next", "z", "0.900"]
    assert max(map(len, lines)) <= 60


def test_states_have_a_row_for_each_unit_and_a_sign() -> None:
    figure = states_map(["a", SCRIPT], [7, 2], [[0.5, -0.5], [1.5, 0.0]], "level 0: c", "c")
    (heat,) = figure.plot.data
    assert [list(row) for row in heat.z] == [[0.5, -0.5], [1.5, 0.0]]
    assert (heat.zmin, heat.zmax) == (-1.5, 1.5), "white is 0, and a cell state may leave −1 … 1"
    assert figure.plot.layout.yaxis.ticktext == ("unit 7", "unit 2")
    assert "<script" not in str(figure.plot.to_plotly_json())
    assert figure.table.rows[1] == ("7", SCRIPT, "1", "-0.5000")
    gate = states_map(["a"], [7], [[0.5]], "level 0: forget", "forget").plot.data[0]
    assert (gate.zmin, gate.zmax) == (0, 1)
    with pytest.raises(DataError, match=r"the values have shape \(1, 2\); expected one row for each of 1 units"):
        states_map(["a"], [7], [[0.5, 0.5]], "t", "h")


def test_states_are_printed_as_bars_and_go_on_below() -> None:
    lines = states_text("level 0", ["ab", "c", "d"], [3], [[-1.0, 0.0, 1.0]], 12).splitlines()
    assert lines[1:] == ["", "       ab c", "unit 3 ▁▁ ▅", "", "       d", "unit 3 █"]


def test_flow_is_logarithmic_with_gaps_where_nothing_arrives() -> None:
    figure = flow_by_distance({"<b>rnn": [1.0, 0.1, 0.0], "lstm": [1.0, 0.5, 0.25]}, "t <b>", ["x", "y", SCRIPT])
    first, second = figure.plot.data
    assert first.y == (1.0, 0.1, None)
    assert second.x == (0, 1, 2)
    assert figure.plot.layout.yaxis.type == "log"
    assert (first.line.color, first.line.dash) != (second.line.color, second.line.dash)
    assert "<b>" not in str(figure.plot.to_plotly_json())
    assert "<script" not in str(figure.plot.to_plotly_json())
    assert figure.table.rows[2] == ("<b>rnn", "2", SCRIPT, "0.000e+00")
