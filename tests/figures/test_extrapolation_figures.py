"""The figures of lengths beyond training: every number is in the plot and in the table."""

from __future__ import annotations

from firth.figures.extrapolation import by_length, by_position, extrapolation_text

LOSSES = {"learned": (2.0, None), "rotary": (1.5, 3.0), "rotary+yarn": (1.5, 1.75)}


def test_a_line_per_scheme_ends_where_its_positions_end() -> None:
    figure = by_length((64, 128), LOSSES, 64)
    assert [line.name for line in figure.plot.data] == list(LOSSES)
    assert [tuple(line.y) for line in figure.plot.data] == list(LOSSES.values())
    assert tuple(figure.plot.data[0].x) == ("64 (1×)", "128 (2×)")
    assert figure.table.rows[:2] == [("learned", "64", "2.000"), ("learned", "128", "–")]
    colours = [line.line.color for line in figure.plot.data]
    assert colours[1] == colours[2] != colours[0]
    assert len({(line.line.color, line.line.dash) for line in figure.plot.data}) == 3


def test_positions_are_averaged_in_bins_that_lose_none() -> None:
    values = [float(n) for n in range(130)]
    figure = by_position({"alibi": values, "learned": values[:3]}, 3)
    (alibi, learned) = figure.plot.data
    assert (alibi.x[0], alibi.y[0]) == (2.5, 1.5)  # positions 1 to 4
    assert (learned.x[-1], learned.y[-1]) == (2.0, 1.0)
    assert (alibi.x[-1], alibi.y[-1]) == (129.5, 128.5)  # what is left over
    assert len(alibi.x) == 33
    assert len(figure.table.rows) == 33 + 1


def test_the_table_has_a_row_per_scheme_and_a_column_per_length() -> None:
    lines = [line.split() for line in extrapolation_text((64, 1024), LOSSES).splitlines()]
    assert lines == [
        ["position", "64", "1,024"],
        ["learned", "2.000", "–"],
        ["rotary", "1.500", "3.000"],
        ["rotary+yarn", "1.500", "1.750"],
    ]
