from __future__ import annotations

import pytest

from firth.errors import DataError
from firth.figures.next_token import next_bars


def test_bars_hold_probabilities_and_shares_by_token() -> None:
    figure = next_bars([" ", "<b>"], [0.75, 0.125], [1.0, 0.0])
    model, drawn = figure.plot.data
    assert (list(model.x), list(drawn.x)) == ([0.75, 0.125], [1.0, 0.0])
    assert list(figure.plot.layout.yaxis.ticktext) == ["␣", "&lt;b&gt;"]  # seen, and not markup
    assert list(figure.table.rows) == [("␣", "0.75", "1"), ("<b>", "0.125", "0")]


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match="1 probabilities and 2 shares for 2 tokens"):
        next_bars(["a", "b"], [1.0], [1.0, 0.0])
