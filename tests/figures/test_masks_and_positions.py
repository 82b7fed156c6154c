"""Attention as pictures: cells where they belong, names that cannot become markup, and no more data than a browser takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from firth.errors import DataError
from firth.figures.attention import (
    HeadFacts,
    attention_lines,
    attention_map,
    attention_overview,
    cells,
    entropy_map,
    entropy_text,
)

WEIGHTS = [[1.0, 0.0, 0.0], [0.25, 0.75, 0.0]]
SCRIPT = "<script>alert(1)</script>"


def test_a_map_has_a_row_for_each_query_and_a_column_for_each_key() -> None:
    figure = attention_map(["a", "b"], ["x", "y", "y"], WEIGHTS, "layer 0")
    (heat,) = figure.plot.data
    assert heat.z == tuple(map(tuple, WEIGHTS)) or [list(row) for row in heat.z] == WEIGHTS
    assert heat.hovertext[1][2] == "b → y"
    assert (heat.zmin, heat.zmax) == (0, 1)
    axes = figure.plot.layout
    assert axes.xaxis.ticktext == ("x", "y", "y")
    assert axes.yaxis.ticktext == ("a", "b")
    assert axes.yaxis.autorange == "reversed"
    assert figure.table.rows[4] == ("b", "1", "y", "1", "0.7500")
    assert len(figure.table.rows) == 6


def test_the_colours_end_at_the_largest_weight_and_an_empty_map_is_white() -> None:
    faint = attention_map(["a"], ["x", "y"], [[0.02, 0.01]], "t").plot.data[0]
    assert (faint.zmin, faint.zmax) == (0, 0.02)
    assert attention_map(["a"], ["x"], [[0.0]], "t").plot.data[0].zmax == 1


@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (0, 3)])
def test_tokens_that_do_not_fit_are_refused(shape: tuple[int, int]) -> None:
    for draw in (attention_map, attention_lines):
        with pytest.raises(DataError, match=r"for 2 queries and 3 keys. Pass all tokens"):
            draw(["a", "b"], ["x", "y", "z"], np.zeros(shape), "t")


def texts(plot: Any) -> str:
    """All that Plotly would read as its subset of HTML."""
    return str(plot.to_plotly_json())


@pytest.mark.parametrize("draw", [attention_map, attention_lines])
def test_what_looks_like_a_script_is_text(draw: Any) -> None:
    figure = draw([SCRIPT, "a\x1b[31m"], [SCRIPT, "<b>", " "], WEIGHTS, SCRIPT)
    assert "<script" not in texts(figure.plot)
    assert "<b>" not in texts(figure.plot)
    assert "\x1b" not in texts(figure.plot)
    assert "&lt;script&gt;" in texts(figure.plot)
    assert "␣" in texts(figure.plot)
    assert "<script>alert" not in figure.html()


def test_an_overview_puts_layer_and_head_where_it_says() -> None:
    small = np.zeros((2, 3, 2, 4))  # 2 layers of 3 heads, 2 rows and 4 columns each
    small[1, 2, 0, 3] = 0.5
    small[0, 1, 1] = [0.1, 0.2, 0.3, 0.4]
    facts = [HeadFacts(layer, head, 1.5, 0.25, 3.0) for layer in (0, 4) for head in range(3)]
    figure = attention_overview([0, 4], small, facts)
    z = np.array(figure.plot.data[0].z, np.float64)  # None becomes nan
    assert z.shape == (2 * 3 - 1, 3 * 5 - 1)
    row, column = 1 * 3, 2 * 5
    assert z[row, column + 3] == 1.0, "each is drawn up to its own largest"
    np.testing.assert_allclose(z[0 * 3 + 1, 5:9], [0.25, 0.5, 0.75, 1.0])
    assert np.isnan(z[2]).all()
    assert np.isnan(z[:, [4, 9]]).all()
    assert np.isnan(z).sum() == 14 + 2 * 4
    assert figure.plot.layout.xaxis.tickvals == (1.5, 6.5, 11.5)
    assert figure.plot.layout.yaxis.tickvals == (0.5, 3.5)
    assert figure.plot.layout.yaxis.ticktext == ("layer 1", "layer 5")
    assert figure.table.rows[5] == ("5", "3", "1.5000", "0.2500", "3.00")


def test_many_cells_go_as_an_array_and_few_as_lists() -> None:
    assert cells([[0.123456789, np.nan]]) == [[0.12346, None]]
    many = cells(np.full((200, 200), 0.5))
    assert isinstance(many, np.ndarray)
    assert many.dtype == np.float32


def test_a_long_text_has_fewer_names_and_a_table_of_the_strongest() -> None:
    n = 150
    weights = np.eye(n) * 0.5 + 0.5 / n
    figure = attention_map([f"t{k}" for k in range(n)], [f"t{k}" for k in range(n)], weights, "t")
    assert len(figure.plot.layout.xaxis.tickvals) == 50
    assert figure.plot.layout.xaxis.ticktext[1] == "t3"
    assert figure.plot.data[0].hovertext is None
    assert len(figure.table.rows) == 8 * n
    assert figure.table.rows[8 * 7][:4] == ("t7", "7", "t7", "7")
    assert figure.plot.layout.width < 1200


def test_lines_join_who_looks_with_what_and_leave_faint_ones_out() -> None:
    figure = attention_lines(["a", "b"], ["x", "y", "z"], [[0.96, 0.04, 0.0], [0.25, 0.7, 0.05]], "t")
    lines = {trace.name: (trace.y, trace.opacity) for trace in figure.plot.data if trace.mode == "lines"}
    assert {name: y for name, (y, _) in lines.items()} == {
        "0.0 – 0.1": (1, 2, None),
        "0.2 – 0.3": (1, 0, None),
        "0.6 – 0.7": (1, 1, None),
        "0.9 – 1.0": (0, 0, None),
    }
    assert lines["0.9 – 1.0"][1] == 1.0
    assert lines["0.0 – 0.1"][1] == 0.1
    words = [trace for trace in figure.plot.data if trace.mode == "text"]
    assert [(trace.x[0], trace.text) for trace in words] == [(-0.03, ("a", "b")), (1.03, ("x", "y", "z"))]
    assert figure.table.rows == [
        ("a", "0", "x", "0", "0.9600"),
        ("b", "1", "x", "0", "0.2500"),
        ("b", "1", "y", "1", "0.7000"),
        ("b", "1", "z", "2", "0.0500"),
    ]


def test_entropy_goes_from_one_key_to_all_alike() -> None:
    figure = entropy_map([0, 1], [[0.0, 1.0], [0.5, 1.3]], 4)
    (heat,) = figure.plot.data
    assert (heat.zmin, heat.zmax) == (0, pytest.approx(np.log(4)))
    assert "1.39 is uniform over 4 keys" in figure.plot.layout.title.text
    assert figure.table.rows[3] == ("2", "2", "1.3000")
    assert entropy_map([0], [[0.0]], 1).plot.data[0].zmax == 1.0, "one key: there is nothing to be spread over"
    lines = entropy_text([0, 1], [[0.0, 1.0], [0.5, 1.3]]).splitlines()
    assert lines[1].split() == ["head", "1", "head", "2"]
    assert lines[3].split() == ["layer", "2", "0.500", "1.300"]
