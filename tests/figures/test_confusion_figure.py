"""The confusion matrix as a picture: counts and shares, and the table they were drawn from."""

from __future__ import annotations

import pytest

from firth.errors import DataError
from firth.figures.confusion import confusion_map

LABELS, COUNTS = ["<b>", "1", "none"], [[1, 3, 0], [0, 1000, 0], [0, 0, 0]]


def test_rows_are_true_classes_and_colours_their_shares() -> None:
    plot = confusion_map(LABELS, COUNTS).plot
    (cells,) = plot.data
    assert [list(row) for row in cells.z] == [[0.25, 0.75, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    assert (cells.zmin, cells.zmax) == (0, 1)
    assert (plot.layout.xaxis.title.text, plot.layout.yaxis.title.text, plot.layout.yaxis.autorange) == (
        "predicted class",
        "true class",
        "reversed",
    )
    assert list(plot.layout.xaxis.ticktext) == list(plot.layout.yaxis.ticktext) == ["&lt;b&gt;", "1", "none"]
    assert cells.hovertext[0][1] == "&lt;b&gt; predicted as 1: 3, 75.0% of &lt;b&gt;"


def test_each_cell_says_its_count_and_share() -> None:
    (cells,) = confusion_map(LABELS, COUNTS).plot.data
    assert [list(row) for row in cells.text][:2] == [
        ["1<br>25.0%", "3<br>75.0%", "0<br>0.0%"],
        ["0<br>0.0%", "1,000<br>100.0%", "0<br>0.0%"],
    ]
    assert cells.texttemplate == "%{text}"


def test_many_classes_have_numbers_under_the_mouse_only() -> None:
    labels = [str(n) for n in range(13)]
    figure = confusion_map(labels, [[1] * 13] * 13)
    assert not figure.plot.data[0].texttemplate
    assert len(figure.table.rows) == 169


def test_the_table_has_every_count_and_share() -> None:
    table = confusion_map(LABELS, COUNTS).table
    assert table.headings == ("true class", "predicted class", "texts", "share of the true class")
    assert table.rows[1] == ("<b>", "1", "3", "0.7500")
    assert "&lt;b&gt;" in table.html()


def test_counts_that_are_not_square_are_refused() -> None:
    with pytest.raises(DataError, match="the confusion matrix has 2 rows; expected 3 rows of 3 counts"):
        confusion_map(LABELS, COUNTS[:2])
